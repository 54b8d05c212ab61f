import { addColumns, type Migration } from './migration.ts'

/** One changeset per dispatch that changed something. */
export const changesetsMigration: Migration = {
  version: 20,
  name: 'changesets',
  up: (database) => {
    database.exec(`CREATE TABLE IF NOT EXISTS changesets (
      id TEXT PRIMARY KEY NOT NULL REFERENCES dispatches (id)
    )`)
    addColumns(database, 'changesets', [
      `state TEXT NOT NULL DEFAULT 'active'`,
      'files INTEGER NOT NULL DEFAULT 0',
      'insertions INTEGER NOT NULL DEFAULT 0',
      'deletions INTEGER NOT NULL DEFAULT 0',
    ])
    for (const action of ['INSERT', 'UPDATE']) {
      const name = `changesets_announce_${action.toLowerCase()}`
      database.exec(`DROP TRIGGER IF EXISTS ${name}`)
      database.exec(
        `CREATE TRIGGER ${name} AFTER ${action} ON changesets
         BEGIN INSERT INTO changes (dispatch_id) VALUES (NEW.id); END`,
      )
    }
  },
}
