import type { Database } from 'better-sqlite3'
import { outcomeColumns, requestColumns, terminalStatuses } from './019-dispatch-records.ts'
import type { Migration } from './migration.ts'

/** As bytes: a column that was there before us may think `{"a":1}` and `{"A":1}` the same. */
const differ = (columns: readonly string[]) =>
  columns.map((column) => `OLD.${column} COLLATE BINARY IS NOT NEW.${column}`).join(' OR ')

const guards: Readonly<Record<string, string>> = {
  dispatches_request_is_immutable: `BEFORE UPDATE ON dispatches
    WHEN ${differ(requestColumns)}
    BEGIN SELECT RAISE(ABORT, 'what a dispatch was asked (sandbox_spec included) is immutable'); END`,
  dispatches_outcome_is_final: `BEFORE UPDATE ON dispatches
    WHEN OLD.status IN ${terminalStatuses} AND (${differ(outcomeColumns)})
    BEGIN SELECT RAISE(ABORT, 'the outcome of a dispatch (sandbox_effective included) is written once'); END`,
  dispatches_effective_comes_with_the_end: `BEFORE UPDATE OF sandbox_effective ON dispatches
    WHEN ${differ(['sandbox_effective'])}
      AND (OLD.sandbox_effective IS NOT NULL OR NEW.status NOT IN ${terminalStatuses} OR NEW.status = 'preflight_failed')
    BEGIN SELECT RAISE(ABORT, 'sandbox_effective is written once, with the terminal status'); END`,
  // Before an insert the number of a row that was given none reads -1, so that nobody may have that one.
  dispatches_are_never_replaced: `BEFORE INSERT ON dispatches
    WHEN EXISTS (SELECT 1 FROM dispatches WHERE id = NEW.id)
      OR (NEW.rowid <> -1 AND EXISTS (SELECT 1 FROM dispatches WHERE rowid = NEW.rowid))
    BEGIN SELECT RAISE(ABORT, 'a dispatch of this id exists and is never replaced'); END`,
  dispatches_are_numbered: `AFTER INSERT ON dispatches WHEN NEW.rowid = -1
    BEGIN SELECT RAISE(ABORT, 'a dispatch of this id exists and is never replaced'); END`,
}

/** An index of another program that allows each value once would let a replacing insert push a row out. */
function allowValuesTwice(database: Database): void {
  const indexes = database
    .prepare(
      `SELECT s.name, s.sql FROM pragma_index_list('dispatches') l JOIN sqlite_schema s ON s.name = l.name
       WHERE l."unique" AND l.origin = 'c'`,
    )
    .all() as { name: string; sql: string }[]
  for (const { name, sql } of indexes) {
    database.exec(`DROP INDEX "${name.replaceAll('"', '""')}"`)
    database.exec(sql.replace(/^(CREATE)\s+UNIQUE\s+(INDEX)/i, '$1 $2'))
  }
}

export const exactGuardsMigration: Migration = {
  version: 27,
  name: 'guards hold whatever was there before',
  up: (database) => {
    for (const [name, body] of Object.entries(guards)) {
      database.exec(`DROP TRIGGER IF EXISTS ${name}; CREATE TRIGGER ${name} ${body}`)
    }
    allowValuesTwice(database)
  },
}
