import type { Migration } from './migration.ts'

/** What waits for a review is found without a walk of all that was ever reviewed. */
export const inReviewMigration: Migration = {
  version: 30,
  name: 'changesets in review',
  up: (database) => {
    database.exec(`CREATE INDEX IF NOT EXISTS changesets_in_review ON changesets (id) WHERE state = 'review'`)
  },
}
