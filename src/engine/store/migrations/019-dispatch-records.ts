import { ensureDispatches } from './002-dispatches.ts'
import { addColumns, type Migration } from './migration.ts'

export const terminalStatuses = `('preflight_failed','completed','failed','timeout','cancelled','interrupted')`

export const requestColumns =
  'parent_id agent role phase prompt sandbox sandbox_spec created_at level roots command repo_id'.split(' ')
export const outcomeColumns = 'status sandbox_effective exit_code error ended_at last_event_hash'.split(' ')
const differ = (columns: readonly string[]) =>
  columns.map((column) => `OLD.${column} IS NOT NEW.${column}`).join(' OR ')

/**
 * The database itself keeps the record honest, whichever program writes: what was asked never changes, what
 * happened is written once, and no row goes away. Triggers hold where code is bypassed.
 */
const guards = [
  // `UPDATE OR REPLACE … SET id` or `SET rowid` would push another row out without any delete trigger.
  `CREATE TRIGGER dispatches_identity_is_fixed BEFORE UPDATE ON dispatches
   WHEN OLD.id IS NOT NEW.id OR OLD.rowid IS NOT NEW.rowid
   BEGIN SELECT RAISE(ABORT, 'a dispatch keeps its id'); END`,
  `CREATE TRIGGER dispatches_request_is_immutable BEFORE UPDATE ON dispatches
   WHEN ${differ(requestColumns)}
   BEGIN SELECT RAISE(ABORT, 'what a dispatch was asked (sandbox_spec included) is immutable'); END`,
  `CREATE TRIGGER dispatches_outcome_is_final BEFORE UPDATE ON dispatches
   WHEN OLD.status IN ${terminalStatuses} AND (${differ(outcomeColumns)})
   BEGIN SELECT RAISE(ABORT, 'the outcome of a dispatch (sandbox_effective included) is written once'); END`,
  `CREATE TRIGGER dispatches_effective_comes_with_the_end BEFORE UPDATE OF sandbox_effective ON dispatches
   WHEN NEW.sandbox_effective IS NOT OLD.sandbox_effective
     AND (OLD.sandbox_effective IS NOT NULL OR NEW.status NOT IN ${terminalStatuses} OR NEW.status = 'preflight_failed')
   BEGIN SELECT RAISE(ABORT, 'sandbox_effective is written once, with the terminal status'); END`,
  `CREATE TRIGGER dispatches_begin_without_effective BEFORE INSERT ON dispatches
   WHEN NEW.sandbox_effective IS NOT NULL
     AND (NEW.status NOT IN ${terminalStatuses} OR NEW.status = 'preflight_failed')
   BEGIN SELECT RAISE(ABORT, 'sandbox_effective is written once, with the terminal status'); END`,
  // INSERT OR REPLACE deletes without firing delete triggers unless the writer asked for recursive ones.
  `CREATE TRIGGER dispatches_are_never_replaced BEFORE INSERT ON dispatches
   WHEN EXISTS (SELECT 1 FROM dispatches WHERE id = NEW.id)
     OR EXISTS (SELECT 1 FROM dispatches WHERE rowid = NEW.rowid)
   BEGIN SELECT RAISE(ABORT, 'a dispatch of this id exists and is never replaced'); END`,
  `CREATE TRIGGER dispatches_are_never_deleted BEFORE DELETE ON dispatches
   BEGIN SELECT RAISE(ABORT, 'a dispatch is never deleted'); END`,
]

const announcements = ['INSERT', 'UPDATE'].map(
  (action) => `CREATE TRIGGER dispatches_announce_${action.toLowerCase()} AFTER ${action} ON dispatches
   BEGIN INSERT INTO changes (dispatch_id) VALUES (NEW.id); END`,
)

export const dispatchRecordsMigration: Migration = {
  version: 19,
  name: 'dispatch records',
  up: (database) => {
    ensureDispatches(database)
    // Also what older versions should have had: a database from elsewhere may lack some of it.
    addColumns(database, 'dispatches', [
      'agent TEXT',
      'prompt TEXT',
      `status TEXT NOT NULL DEFAULT 'interrupted'`,
      `created_at TEXT NOT NULL DEFAULT ''`,
      'parent_id TEXT',
      'name TEXT',
      'role TEXT',
      'phase TEXT',
      'sandbox TEXT',
      'sandbox_spec TEXT',
      'sandbox_effective TEXT',
      'exit_code INTEGER',
      'error TEXT',
      'started_at TEXT',
      'ended_at TEXT',
      'repo_id TEXT',
      'level INTEGER',
      'boundary TEXT',
      'roots TEXT',
      'command TEXT',
      'supervisor_pid INTEGER',
      'supervisor_start_ticks INTEGER',
      'last_event_hash TEXT',
    ])
    database.exec(`CREATE TABLE IF NOT EXISTS changes (seq INTEGER PRIMARY KEY, dispatch_id TEXT NOT NULL)`)
    database.exec(`CREATE INDEX IF NOT EXISTS dispatches_newest ON dispatches (created_at, id)`)
    database.exec(
      `CREATE INDEX IF NOT EXISTS dispatches_children ON dispatches (parent_id) WHERE parent_id IS NOT NULL`,
    )
    database.exec(
      `CREATE INDEX IF NOT EXISTS dispatches_unfinished ON dispatches (status) WHERE status IN ('starting','running')`,
    )
    for (const trigger of [...guards, ...announcements]) {
      const name = /^CREATE TRIGGER (\w+)/.exec(trigger)?.[1] as string
      database.exec(`DROP TRIGGER IF EXISTS ${name}`)
      database.exec(trigger)
    }
  },
}
