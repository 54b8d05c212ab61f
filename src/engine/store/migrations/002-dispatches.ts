import type { Database } from 'better-sqlite3'
import type { Migration } from './migration.ts'

/** Later steps make sure of it too: a version number is a claim, and a database from elsewhere may make it lightly. */
export function ensureDispatches(database: Database): void {
  database.exec(`CREATE TABLE IF NOT EXISTS dispatches (
    id TEXT PRIMARY KEY NOT NULL,
    agent TEXT,
    prompt TEXT,
    status TEXT NOT NULL,
    created_at TEXT NOT NULL
  )`)
}

/** The first version with dispatches: what was asked of which agent, and how it stands. */
export const dispatchesMigration: Migration = {
  version: 2,
  name: 'dispatches',
  up: ensureDispatches,
}
