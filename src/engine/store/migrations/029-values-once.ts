import type { Database } from 'better-sqlite3'
import type { Migration } from './migration.ts'

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** The columns of each constraint that allows a value once; an index of that kind was opened by version 27. */
function constraintsOf(database: Database): readonly (readonly string[])[] {
  const rows = database
    .prepare(
      `SELECT l.name, c.name AS "column" FROM pragma_index_list('dispatches') l, pragma_index_info(l.name) c
       WHERE l."unique" AND l.origin <> 'c' ORDER BY l.seq, c.seqno`,
    )
    .all() as { name: string; column: string }[]
  const constraints = Map.groupBy(rows, ({ name }) => name).values()
  return [...constraints].map((columns) => columns.map(({ column }) => column))
}

/**
 * A constraint in the table of another program cannot be taken out of it, and by it a replacing statement would push
 * a row out before any trigger on deletions is asked.
 */
export const valuesOnceMigration: Migration = {
  version: 29,
  name: 'no row is pushed out by a value it has',
  up: (database) => {
    constraintsOf(database).forEach((columns, index) => {
      const isTaken = columns.map((column) => `${quoted(column)} = NEW.${quoted(column)}`).join(' AND ')
      const refusal = `BEGIN SELECT RAISE(ABORT, 'a dispatch with this value exists and is never replaced'); END`
      database.exec(`
        DROP TRIGGER IF EXISTS dispatches_values_once_${index};
        CREATE TRIGGER dispatches_values_once_${index} BEFORE INSERT ON dispatches
          WHEN EXISTS (SELECT 1 FROM dispatches WHERE ${isTaken}) ${refusal};
        DROP TRIGGER IF EXISTS dispatches_values_stay_once_${index};
        CREATE TRIGGER dispatches_values_stay_once_${index} BEFORE UPDATE ON dispatches
          WHEN EXISTS (SELECT 1 FROM dispatches WHERE ${isTaken} AND rowid <> OLD.rowid) ${refusal};
      `)
    })
  },
}
