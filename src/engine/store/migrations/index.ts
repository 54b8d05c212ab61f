import { dispatchesMigration } from './002-dispatches.ts'
import { dispatchLifeMigration } from './017-dispatch-life.ts'
import { sandboxContractMigration } from './018-sandbox-contract.ts'
import { dispatchRecordsMigration } from './019-dispatch-records.ts'
import { changesetsMigration } from './020-changesets.ts'
import { boundariesMigration } from './021-boundaries.ts'
import { retentionMigration } from './023-retention.ts'
import { workspacesMigration } from './024-workspaces.ts'
import { turnsMigration } from './025-turns.ts'
import { oneWayMigration } from './026-one-way.ts'
import { exactGuardsMigration } from './027-exact-guards.ts'
import { takenHostsMigration } from './028-taken-hosts.ts'
import { valuesOnceMigration } from './029-values-once.ts'
import { inReviewMigration } from './030-in-review.ts'
import type { Migration } from './migration.ts'

/** Every step there is, in order. Numbers without a file never were a version of their own. */
export const migrations: readonly Migration[] = [
  dispatchesMigration,
  dispatchLifeMigration,
  sandboxContractMigration,
  dispatchRecordsMigration,
  changesetsMigration,
  boundariesMigration,
  retentionMigration,
  workspacesMigration,
  turnsMigration,
  oneWayMigration,
  exactGuardsMigration,
  takenHostsMigration,
  valuesOnceMigration,
  inReviewMigration,
]

export const schemaVersion = Math.max(...migrations.map((migration) => migration.version))
export type { Migration } from './migration.ts'
