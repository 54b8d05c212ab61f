import type { Database, RunResult } from 'better-sqlite3'
import { fillPlaceholders, type Query } from 'drizzle-orm'

export type Compiled<Row> = {
  run(values: Readonly<Record<string, unknown>>): RunResult
  get(values: Readonly<Record<string, unknown>>): Row | undefined
  all(values: Readonly<Record<string, unknown>>): Row[]
}

/**
 * A query written with drizzle, run by better-sqlite3 itself: its results are objects under the columns' own
 * names, without the second mapping that made lists three times as slow as the bare query.
 */
export function compile<Row = never>(database: Database, query: { toSQL(): Query }): Compiled<Row> {
  const { sql, params } = query.toSQL()
  const statement = database.prepare<unknown[], Row>(sql)
  const filled = (values: Readonly<Record<string, unknown>>) => fillPlaceholders(params, values)
  return {
    run: (values) => statement.run(...filled(values)),
    get: (values) => statement.get(...filled(values)),
    all: (values) => statement.all(...filled(values)),
  }
}
