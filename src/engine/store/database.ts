import type { Database } from 'better-sqlite3'
import type { BetterSQLite3Database } from 'drizzle-orm/better-sqlite3'
import type * as schema from './schema.ts'

/** One connection in two forms: queries are written with `orm`, transactions and pragmas with `sqlite`. */
export type StoreDatabase = {
  readonly sqlite: Database
  readonly orm: BetterSQLite3Database<typeof schema>
  /** Does the work and tells a full disk, a lock or damage in words for people. Every query goes through it. */
  attempt<T>(work: () => T): T
}
