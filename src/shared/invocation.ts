import { z } from 'zod'
import { dispatchStatuses } from './dispatch.ts'
import { dispatchIdSchema } from './ids.ts'
import { workspaceStrategySchema } from './spec.ts'

export const workspaceRootSchema = z.object({
  path: z.string(),
  target: z.string(),
  name: z.string(),
  role: z.enum(['project', 'git']),
  access: z.enum(['rw', 'ro', 'hidden']),
  mount: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('overlay'), lower: z.string(), upper: z.string(), work: z.string() }),
    z.object({ kind: z.literal('bind'), source: z.string() }),
  ]),
})

/**
 * `invocations/<id>/meta.json`: the single source of truth for an invocation and its sandbox; the database
 * mirrors it. The first block is the schema of seed 2, the second what the other strategies need besides.
 * Fields of a later release are kept on every rewrite.
 */
export const invocationMetaSchema = z.looseObject({
  schema_version: z.literal('1.0'),
  invocation_id: dispatchIdSchema,
  /** A label for people; never identity. */
  invocation_name: z.string().optional(),
  integration_worktree_id: z.string().nullable(),
  sandbox_path: z.string(),
  sandbox_branch: z.string().nullable(),
  base_commit: z.string().nullable(),
  runner: z.string(),
  mode: z.enum(['headed', 'headless']),
  status: z.enum(dispatchStatuses),
  started_at: z.string(),

  strategy: workspaceStrategySchema,
  driver: z.enum(['kernel-overlay', 'fuse-overlayfs', 'reflink-copy', 'plain-copy', 'direct']),
  common_dir: z.string().nullable(),
  roots: z.array(workspaceRootSchema),
  created_at_ms: z.number(),
  /** When the copies of a clone were complete. */
  copied_at_ms: z.number().optional(),
  ended_at: z.string().nullable().default(null),
  /** What the user should know about this sandbox: uncommitted work that is not in it, empty submodules. */
  notes: z.array(z.string()).default([]),
  /** What became of the sandbox once it was taken down, and where its work is kept. */
  outcome: z.enum(['landed', 'discarded', 'disposed']).nullable().default(null),
  archive: z.string().nullable().default(null),
  /** Refs of the agent's repository whose commits could not be had, and why. */
  commits_refused: z.array(z.object({ ref: z.string(), why: z.string() })).optional(),
  /** The invocation whose sandbox this one goes on in: a later turn has a record of its own and no sandbox. */
  continues: dispatchIdSchema.optional(),
})
export type InvocationMeta = z.infer<typeof invocationMetaSchema>

/** `worktrees/<id>/meta.json`: one integration worktree. */
export const worktreeMetaSchema = z.looseObject({
  schema_version: z.literal('1.0'),
  worktree_id: dispatchIdSchema,
  name: z.string(),
  repo_id: z.string(),
  /** Real path of the repository's common git folder, and of the checkout it was made from. */
  common_dir: z.string(),
  repo_path: z.string(),
  branch: z.string(),
  base_commit: z.string(),
  tree_path: z.string(),
  created_at: z.string(),
  notes: z.array(z.string()).default([]),
  outcome: z.enum(['removed']).nullable().default(null),
  archive: z.string().nullable().default(null),
})
export type WorktreeMeta = z.infer<typeof worktreeMetaSchema>

/** An entry of `agent ls` or `worktree ls`: the record, and whether disk and record belong together. */
const scanned = { repo_id: z.string(), id: z.string(), broken: z.boolean(), why: z.string().nullable() }
export const invocationEntrySchema = z.object({ ...scanned, meta: invocationMetaSchema.nullable() })
export type InvocationEntry = z.infer<typeof invocationEntrySchema>
export const worktreeEntrySchema = z.object({ ...scanned, meta: worktreeMetaSchema.nullable() })
export type WorktreeEntry = z.infer<typeof worktreeEntrySchema>

/** A sandbox that stands beside an integration worktree; one in which nothing runs is idle. */
export const sandboxOfWorktreeSchema = z.object({
  id: dispatchIdSchema,
  name: z.string(),
  status: z.string(),
  running: z.boolean(),
})
export type SandboxOfWorktree = z.infer<typeof sandboxOfWorktreeSchema>

/** What would be lost with a worktree, were it not put into the archive. */
export const stakesSchema = z.object({
  uncommitted: z.array(z.string()),
  /** Commits that are on no other branch, as `<short id> <subject>`. */
  unmerged: z.array(z.string()),
  /** What was begun there and is not brought to its end, as `a rebase in progress`. */
  unfinished: z.array(z.string()).default([]),
  /** Files and whole folders that git ignores: nobody is asked about them, and the archive keeps them. */
  ignored: z.array(z.string()).default([]),
})
export type Stakes = z.infer<typeof stakesSchema>

export const removedWorktreeSchema = z.object({
  id: dispatchIdSchema,
  archive: z.string(),
  stakes: stakesSchema,
  /** What was left where it is, and why. */
  notes: z.array(z.string()).optional(),
})

/** `files` and `commits`: what the sandbox held, which is in the archive now. */
export const discardedAgentSchema = z.object({
  id: dispatchIdSchema,
  archive: z.string().nullable(),
  files: z.number(),
  commits: z.number(),
  notes: z.array(z.string()).optional(),
})

export const agentCommitSchema = z.object({
  commit: z.string(),
  parents: z.array(z.string()),
  author: z.string(),
  date: z.string(),
  subject: z.string(),
  /** Left behind on a HEAD that was detached, on a branch that is gone or by an amend; kept all the same. */
  on_no_branch: z.boolean().optional(),
  /** Made in another repository than the first root's: the root, or a repository below it. */
  repository: z.string().optional(),
})
export type AgentCommit = z.infer<typeof agentCommitSchema>

export const landResultSchema = z.object({
  id: dispatchIdSchema,
  /** False: something still waits for a decision, and the sandbox stays. */
  landed: z.boolean(),
  branch: z.string(),
  tree: z.string(),
  commit: z.string().nullable(),
  applied: z.array(z.object({ root: z.string(), path: z.string() })),
  skipped: z.array(z.object({ path: z.string(), why: z.string() })),
  /** What landed otherwise than asked for. */
  notes: z.array(z.string()).optional(),
  /** Nothing landed yet: it will when these agents have ended. */
  waits_for: z.array(dispatchIdSchema).optional(),
})
export type LandResult = z.infer<typeof landResultSchema>

/** A landing that waits until no agent looks at its folders. */
export const waitingLandingSchema = z.object({
  id: dispatchIdSchema,
  kind: z.enum(['apply', 'land', 'undo']),
  by: z.string(),
  asked_at: z.string(),
  /** Running agents on the same folders, now. */
  waits_for: z.array(dispatchIdSchema),
  /** Why it did not land when its turn came; it then waits for a person, not for an agent. */
  problem: z.string().nullable(),
})
export type WaitingLanding = z.infer<typeof waitingLandingSchema>

/** `archive/<id>/record.json`: what was put away, from where, and until when it is kept. */
export const archiveRecordSchema = z.object({
  schema_version: z.literal('1.0'),
  id: dispatchIdSchema,
  repo_id: z.string(),
  kind: z.enum(['invocation', 'worktree']),
  name: z.string(),
  why: z.string(),
  archived_at: z.string(),
  expires_at: z.string(),
  /** Where `content` came from. */
  origin: z.string(),
  common_dir: z.string().nullable(),
  /** The branch that was taken out of the repository, and where it stood. */
  branch: z.string().nullable(),
  tip: z.string().nullable(),
  /** What `refs/orangery/archive/<id>` keeps: the tip, and on top of it whatever was not committed. */
  commit: z.string().nullable(),
  /** What else is kept, each as `refs/orangery/archive/<id>-<name>`. */
  aside: z
    .object({
      /** The branch as the user left it, where the agent's own last commit does not hold it. */
      branch: z.string().optional(),
      /** Where the tree's HEAD stood, when it was on no branch. */
      head: z.string().optional(),
      /** What was staged. */
      index: z.string().optional(),
      /** The sides of files in conflict, each below the number of its stage. */
      conflict: z.string().optional(),
      /** What was being merged. */
      merge: z.string().optional(),
      /** All else that git's folder of the checkout names: own refs, a rebase in progress. */
      state: z.string().optional(),
    })
    .optional(),
  /** Refs below `refs/orangery/<id>/` that came into the repository with this, and go with it. */
  published: z.array(z.object({ ref: z.string(), commit: z.string() })).optional(),
})

export const archiveEntrySchema = archiveRecordSchema.extend({
  /** Why it is kept beyond its time. */
  held: z.string().optional(),
})
export type ArchiveRecord = z.infer<typeof archiveRecordSchema>

export const orphanSchema = z.object({
  kind: z.enum([
    'sandbox_without_record',
    'record_without_sandbox',
    'worktree_without_record',
    'record_without_worktree',
    'restore_unfinished',
    'branch_without_sandbox',
    'branch_without_worktree',
    'registered_without_sandbox',
    'registered_without_worktree',
    'row_without_record',
    'record_lost',
    'work_unknown',
    'archive_without_record',
    'repository_gone',
    'marker_missing',
  ]),
  id: z.string(),
  place: z.string(),
  why: z.string(),
  /** What a person can do about it; nothing happens by itself. */
  hint: z.string().nullable().default(null),
})
export type Orphan = z.infer<typeof orphanSchema>
