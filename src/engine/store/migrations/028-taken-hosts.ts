import { addColumns, type Migration } from './migration.ts'

/** Hosts that a person took back from a running agent, and those that came back since. */
export const takenHostsMigration: Migration = {
  version: 28,
  name: 'hosts taken back',
  up: (database) => {
    addColumns(database, 'boundary_grants', [
      `taken TEXT NOT NULL DEFAULT '[]'`,
      `returned TEXT NOT NULL DEFAULT '[]'`,
    ])
  },
}
