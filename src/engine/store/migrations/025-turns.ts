import type { Migration } from './migration.ts'

/** Dispatches that went on working on a changeset after a review: its second turn and later ones. */
export const turnsMigration: Migration = {
  version: 25,
  name: 'turns of a changeset',
  up: (database) => {
    database.exec(`
      CREATE TABLE IF NOT EXISTS changeset_turns (
        dispatch_id TEXT PRIMARY KEY NOT NULL REFERENCES dispatches (id),
        changeset_id TEXT NOT NULL, at TEXT NOT NULL, by TEXT NOT NULL
      ) WITHOUT ROWID;
      CREATE INDEX IF NOT EXISTS changeset_turns_of ON changeset_turns (changeset_id, at);
      DROP TRIGGER IF EXISTS changesets_announce_to_turns;
      CREATE TRIGGER changesets_announce_to_turns AFTER UPDATE ON changesets
        WHEN EXISTS (SELECT 1 FROM changeset_turns WHERE changeset_id = NEW.id)
        BEGIN
          INSERT INTO changes (dispatch_id) SELECT dispatch_id FROM changeset_turns WHERE changeset_id = NEW.id;
        END;
    `)
  },
}
