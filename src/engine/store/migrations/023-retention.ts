import type { Migration } from './migration.ts'

/** What the user set, and which logs went because of it. */
export const retentionMigration: Migration = {
  version: 23,
  name: 'retention',
  up: (database) => {
    database.exec(`
      CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS removed_logs (
        dispatch_id TEXT NOT NULL REFERENCES dispatches (id), log TEXT NOT NULL, bytes INTEGER NOT NULL,
        removed_at TEXT NOT NULL, why TEXT NOT NULL, PRIMARY KEY (dispatch_id, log)
      ) WITHOUT ROWID;
    `)
  },
}
