import { ensureDispatches } from './002-dispatches.ts'
import { addColumns, type Migration } from './migration.ts'

/** What sandbox was requested and what really happened. NULL means "not given", for rows of any age. */
export const sandboxContractMigration: Migration = {
  version: 18,
  name: 'sandbox contract',
  up: (database) => {
    ensureDispatches(database)
    addColumns(database, 'dispatches', ['sandbox_spec TEXT', 'sandbox_effective TEXT'])
  },
}
