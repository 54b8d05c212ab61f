import type { Migration } from './migration.ts'

const tables = [
  `CREATE TABLE IF NOT EXISTS boundary_requests (
    id TEXT PRIMARY KEY NOT NULL,
    dispatch_id TEXT NOT NULL REFERENCES dispatches (id),
    to_level TEXT NOT NULL,
    hosts TEXT NOT NULL,
    source TEXT NOT NULL,
    by TEXT NOT NULL,
    why TEXT NOT NULL,
    status TEXT NOT NULL,
    count INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    last_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    answer TEXT
  )`,
  `CREATE TABLE IF NOT EXISTS boundary_grants (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    dispatch_id TEXT NOT NULL REFERENCES dispatches (id),
    at TEXT NOT NULL,
    from_level TEXT,
    to_level TEXT NOT NULL,
    hosts TEXT NOT NULL,
    by TEXT NOT NULL,
    why TEXT NOT NULL,
    way TEXT NOT NULL,
    request TEXT
  )`,
  `CREATE TABLE IF NOT EXISTS task_approvals (
    id TEXT PRIMARY KEY NOT NULL,
    task TEXT NOT NULL REFERENCES dispatches (id),
    agent TEXT NOT NULL,
    level TEXT NOT NULL,
    hosts TEXT NOT NULL,
    by TEXT NOT NULL,
    at TEXT NOT NULL,
    revoked_at TEXT
  )`,
  `CREATE INDEX IF NOT EXISTS boundary_requests_of ON boundary_requests (dispatch_id, created_at)`,
  `CREATE INDEX IF NOT EXISTS boundary_requests_open ON boundary_requests (created_at) WHERE status = 'open'`,
  `CREATE INDEX IF NOT EXISTS boundary_grants_of ON boundary_grants (dispatch_id, seq)`,
  `CREATE INDEX IF NOT EXISTS task_approvals_of ON task_approvals (task)`,
]

/** Who widened what, and why, is an audit record: it is added to and never rewritten. */
const triggers = [
  `CREATE TRIGGER boundary_grants_are_final BEFORE UPDATE ON boundary_grants
   BEGIN SELECT RAISE(ABORT, 'a change of a boundary is written once'); END`,
  `CREATE TRIGGER boundary_grants_are_never_deleted BEFORE DELETE ON boundary_grants
   BEGIN SELECT RAISE(ABORT, 'a change of a boundary is never deleted'); END`,
  `CREATE TRIGGER boundary_grants_are_never_replaced BEFORE INSERT ON boundary_grants
   WHEN EXISTS (SELECT 1 FROM boundary_grants WHERE seq = NEW.seq)
   BEGIN SELECT RAISE(ABORT, 'a change of a boundary is written once'); END`,
  `CREATE TRIGGER boundary_requests_wish_is_fixed BEFORE UPDATE ON boundary_requests
   WHEN OLD.id IS NOT NEW.id OR OLD.dispatch_id IS NOT NEW.dispatch_id OR OLD.to_level IS NOT NEW.to_level
     OR OLD.hosts IS NOT NEW.hosts OR OLD.source IS NOT NEW.source OR OLD.created_at IS NOT NEW.created_at
   BEGIN SELECT RAISE(ABORT, 'what was asked for never changes'); END`,
  `CREATE TRIGGER boundary_requests_are_never_deleted BEFORE DELETE ON boundary_requests
   BEGIN SELECT RAISE(ABORT, 'a request is never deleted'); END`,
  ...['boundary_requests', 'boundary_grants'].flatMap((table) =>
    ['INSERT', 'UPDATE'].map(
      (action) => `CREATE TRIGGER ${table}_announce_${action.toLowerCase()} AFTER ${action} ON ${table}
       BEGIN INSERT INTO changes (dispatch_id) VALUES (NEW.dispatch_id); END`,
    ),
  ),
]

/** Requests for a wider boundary, what was granted, and the approvals that hold for a task. */
export const boundariesMigration: Migration = {
  version: 21,
  name: 'boundaries',
  up: (database) => {
    for (const table of tables) database.exec(table)
    for (const trigger of triggers) {
      const name = /^CREATE TRIGGER (\w+)/.exec(trigger)?.[1] as string
      database.exec(`DROP TRIGGER IF EXISTS ${name}`)
      database.exec(trigger)
    }
  },
}
