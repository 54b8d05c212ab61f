import { addColumns, type Migration } from './migration.ts'

/** One changeset per dispatch that changed something, with all that was captured, said and decided about it. */
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
      `repo_id TEXT NOT NULL DEFAULT ''`,
      `revision TEXT NOT NULL DEFAULT ''`,
      `workspace TEXT NOT NULL DEFAULT '{}'`,
      `updated_at TEXT NOT NULL DEFAULT ''`,
      'escalated TEXT',
    ])
    // Paths are bytes, stored one character per byte; `hunk` '' is the whole file.
    database.exec(`
      CREATE TABLE IF NOT EXISTS changeset_transitions (
        seq INTEGER PRIMARY KEY, changeset_id TEXT NOT NULL REFERENCES changesets (id),
        at TEXT NOT NULL, from_state TEXT, to_state TEXT NOT NULL, by TEXT NOT NULL, why TEXT NOT NULL
      );
      CREATE TABLE IF NOT EXISTS changeset_decisions (
        changeset_id TEXT NOT NULL REFERENCES changesets (id), root TEXT NOT NULL, path TEXT NOT NULL,
        hunk TEXT NOT NULL, anchor TEXT NOT NULL, verdict TEXT NOT NULL, by TEXT NOT NULL, at TEXT NOT NULL,
        PRIMARY KEY (changeset_id, root, path, hunk)
      ) WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS changeset_comments (
        seq INTEGER PRIMARY KEY, changeset_id TEXT NOT NULL REFERENCES changesets (id), root TEXT NOT NULL,
        path TEXT NOT NULL, hunk TEXT NOT NULL, anchor TEXT NOT NULL, text TEXT NOT NULL, by TEXT NOT NULL,
        at TEXT NOT NULL
      );
      CREATE TABLE IF NOT EXISTS changeset_resolutions (
        changeset_id TEXT NOT NULL REFERENCES changesets (id), root TEXT NOT NULL, path TEXT NOT NULL,
        anchor TEXT NOT NULL, choice TEXT NOT NULL, content TEXT, by TEXT NOT NULL, at TEXT NOT NULL,
        PRIMARY KEY (changeset_id, root, path)
      ) WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS changeset_captures (
        changeset_id TEXT NOT NULL REFERENCES changesets (id), revision TEXT NOT NULL, at TEXT NOT NULL,
        final INTEGER NOT NULL, turn INTEGER NOT NULL,
        PRIMARY KEY (changeset_id, revision)
      );
      CREATE TABLE IF NOT EXISTS changeset_reviews (
        changeset_id TEXT NOT NULL REFERENCES changesets (id), by TEXT NOT NULL, revision TEXT NOT NULL,
        at TEXT NOT NULL, PRIMARY KEY (changeset_id, by)
      ) WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS changeset_applies (
        seq INTEGER PRIMARY KEY, transaction_id TEXT NOT NULL UNIQUE,
        changeset_id TEXT NOT NULL REFERENCES changesets (id), kind TEXT NOT NULL, revision TEXT NOT NULL,
        at TEXT NOT NULL, by TEXT NOT NULL, state TEXT NOT NULL
      );
      CREATE INDEX IF NOT EXISTS changeset_transitions_of ON changeset_transitions (changeset_id);
      CREATE INDEX IF NOT EXISTS changeset_comments_of ON changeset_comments (changeset_id);
      CREATE INDEX IF NOT EXISTS changeset_applies_of ON changeset_applies (changeset_id);
    `)
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
