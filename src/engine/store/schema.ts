import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { BoundaryLevel } from '../../shared/boundary.ts'
import type { ChangesetState } from '../../shared/changeset.ts'
import type { DispatchStatus } from '../../shared/dispatch.ts'
import type { DispatchId, RepoId } from '../../shared/ids.ts'
import type { SandboxLevel } from '../../shared/level.ts'

/** The newest version of each table, as queries see it. The migrations are what makes it so. */
export const dispatches = sqliteTable('dispatches', {
  id: text().$type<DispatchId>().primaryKey(),
  parentId: text('parent_id'),
  name: text(),
  agent: text(),
  role: text(),
  phase: text(),
  prompt: text(),
  status: text().$type<DispatchStatus>().notNull(),
  sandbox: text(),
  sandboxSpec: text('sandbox_spec'),
  sandboxEffective: text('sandbox_effective'),
  exitCode: integer('exit_code'),
  error: text(),
  createdAt: text('created_at').notNull(),
  startedAt: text('started_at'),
  endedAt: text('ended_at'),
  repoId: text('repo_id').$type<RepoId>(),
  level: integer().$type<SandboxLevel>(),
  boundary: text().$type<BoundaryLevel>(),
  /** JSON arrays of strings. */
  roots: text(),
  command: text(),
  supervisorPid: integer('supervisor_pid'),
  supervisorStartTicks: integer('supervisor_start_ticks'),
  lastEventHash: text('last_event_hash'),
})

export const changesets = sqliteTable('changesets', {
  id: text().$type<DispatchId>().primaryKey(),
  state: text().$type<ChangesetState>().notNull(),
  files: integer().notNull(),
  insertions: integer().notNull(),
  deletions: integer().notNull(),
})

/** Which dispatch a commit touched, in order. Triggers write it; it is how processes hear of each other. */
export const changes = sqliteTable('changes', {
  seq: integer().primaryKey(),
  dispatchId: text('dispatch_id').notNull(),
})
