import type { Migration } from './migration.ts'

/** The first version with dispatches: what was asked of which agent, and how it stands. */
export const dispatchesMigration: Migration = {
  version: 2,
  name: 'dispatches',
  up: (database) => {
    database.exec(`CREATE TABLE IF NOT EXISTS dispatches (
      id TEXT PRIMARY KEY NOT NULL,
      agent TEXT,
      prompt TEXT,
      status TEXT NOT NULL,
      created_at TEXT NOT NULL
    )`)
  },
}
