import type { Migration } from './migration.ts'

const ended = `('preflight_failed','completed','failed','timeout','cancelled','interrupted')`

/**
 * A life goes one way: starting, running, ended, and when it began and who watched over it are facts from
 * then on. Rows of other programs may come with words of their own.
 */
const guards: Readonly<Record<string, string>> = {
  dispatches_never_go_back: `BEFORE UPDATE OF status ON dispatches
    WHEN NEW.status IS NOT OLD.status AND NEW.status NOT IN ${ended}
      AND NOT (OLD.status IS 'starting' AND NEW.status IS 'running')
    BEGIN SELECT RAISE(ABORT, 'a dispatch never goes back: starting, running, ended'); END`,
  dispatches_begin_once: `BEFORE UPDATE OF started_at ON dispatches
    WHEN OLD.started_at IS NOT NULL AND NEW.started_at IS NOT OLD.started_at
    BEGIN SELECT RAISE(ABORT, 'when a dispatch started is written once'); END`,
  dispatches_keep_their_name: `BEFORE UPDATE OF name ON dispatches
    WHEN NEW.name IS NOT OLD.name
    BEGIN SELECT RAISE(ABORT, 'a dispatch keeps its name'); END`,
  dispatches_rest_when_ended: `BEFORE UPDATE ON dispatches
    WHEN OLD.status IN ${ended} AND (OLD.boundary IS NOT NEW.boundary OR OLD.started_at IS NOT NEW.started_at
      OR OLD.supervisor_pid IS NOT NEW.supervisor_pid
      OR OLD.supervisor_start_ticks IS NOT NEW.supervisor_start_ticks)
    BEGIN SELECT RAISE(ABORT, 'a dispatch that ended never changes'); END`,
}

export const oneWayMigration: Migration = {
  version: 26,
  name: 'a life goes one way',
  up: (database) => {
    for (const [name, body] of Object.entries(guards)) {
      database.exec(`DROP TRIGGER IF EXISTS ${name}; CREATE TRIGGER ${name} ${body}`)
    }
  },
}
