import { ensureDispatches } from './002-dispatches.ts'
import { addColumns, type Migration } from './migration.ts'

/** The life of a dispatch: who asked, under which name and legacy sandbox word, when it ran, how it ended. */
export const dispatchLifeMigration: Migration = {
  version: 17,
  name: 'dispatch life',
  up: (database) => {
    ensureDispatches(database)
    addColumns(database, 'dispatches', [
      'parent_id TEXT',
      'name TEXT',
      'role TEXT',
      'phase TEXT',
      'sandbox TEXT',
      'exit_code INTEGER',
      'error TEXT',
      'started_at TEXT',
      'ended_at TEXT',
    ])
  },
}
