import type { Database } from 'better-sqlite3'

/**
 * One step of the schema. `up` runs in a transaction of its own and must do no harm to a database that
 * already has some or all of what it adds, nor to columns and tables it does not know.
 */
export type Migration = {
  readonly version: number
  readonly name: string
  readonly up: (database: Database) => void
}

function columnsOf(database: Database, table: string): ReadonlySet<string> {
  const rows = database.prepare('SELECT name FROM pragma_table_xinfo(?)').all(table) as { name: string }[]
  // Column names are case-insensitive in SQLite: `Sandbox_Spec` is the same column.
  return new Set(rows.map((row) => row.name.toLowerCase()))
}

/** Adds what is missing of the given columns (`name TYPE …`). */
export function addColumns(database: Database, table: string, definitions: readonly string[]): void {
  const present = columnsOf(database, table)
  for (const definition of definitions) {
    const name = definition.split(' ', 1)[0] as string
    if (!present.has(name)) database.exec(`ALTER TABLE "${table}" ADD COLUMN ${definition}`)
  }
}
