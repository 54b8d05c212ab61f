import type { Migration } from './migration.ts'

/** Other processes hear of these at once, like of a dispatch. */
const announced = [
  ['invocations', 'INSERT', 'NEW'],
  ['invocations', 'UPDATE', 'NEW'],
  ['landings', 'INSERT', 'NEW'],
  ['landings', 'UPDATE', 'NEW'],
  ['landings', 'DELETE', 'OLD'],
] as const

/** What `meta.json` says of each invocation, and the landings that wait until nobody looks at their folders. */
export const workspacesMigration: Migration = {
  version: 24,
  name: 'workspaces',
  up: (database) => {
    database.exec(`
      CREATE TABLE IF NOT EXISTS invocations (
        id TEXT PRIMARY KEY NOT NULL, repo_id TEXT NOT NULL, status TEXT NOT NULL, strategy TEXT NOT NULL,
        integration_worktree_id TEXT, sandbox_branch TEXT, outcome TEXT, meta TEXT NOT NULL
      ) WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS landings (
        id TEXT PRIMARY KEY NOT NULL, request TEXT NOT NULL,
        asked_by TEXT NOT NULL, asked_at TEXT NOT NULL, problem TEXT
      ) WITHOUT ROWID;
    `)
    for (const [table, action, row] of announced) {
      const name = `${table}_announce_${action.toLowerCase()}`
      database.exec(`DROP TRIGGER IF EXISTS ${name}`)
      database.exec(`CREATE TRIGGER ${name} AFTER ${action} ON ${table}
        BEGIN INSERT INTO changes (dispatch_id) VALUES (${row}.id); END`)
    }
  },
}
