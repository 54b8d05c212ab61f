import { z } from 'zod'
import { dispatchStatuses } from '../../shared/dispatch.ts'
import { dispatchIdSchema, type DispatchId, type RepoId } from '../../shared/ids.ts'
import { workspaceStrategySchema } from '../../shared/spec.ts'

const overlayMountSchema = z.object({
  kind: z.literal('overlay'),
  lower: z.string(),
  upper: z.string(),
  work: z.string(),
})
const bindMountSchema = z.object({ kind: z.literal('bind'), source: z.string() })

export const workspaceRootSchema = z.object({
  path: z.string(),
  target: z.string(),
  name: z.string(),
  role: z.enum(['project', 'git']),
  access: z.enum(['rw', 'ro', 'hidden']),
  mount: z.discriminatedUnion('kind', [overlayMountSchema, bindMountSchema]),
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
  ended_at: z.string().nullable().default(null),
  /** What became of the sandbox once it was taken down, and where its work is kept. */
  outcome: z.enum(['landed', 'discarded', 'disposed']).nullable().default(null),
  archive: z.string().nullable().default(null),
})
export type InvocationMeta = z.infer<typeof invocationMetaSchema>

export type InvocationPatch = Partial<
  Pick<InvocationMeta, 'status' | 'runner' | 'mode' | 'ended_at' | 'outcome' | 'archive' | 'roots' | 'driver'>
>

/** One entry of a scan: what is on disk for one id, whole or not. */
export type InvocationRecord = {
  readonly repoId: RepoId
  readonly id: DispatchId
  readonly meta: InvocationMeta | null
  readonly broken: boolean
  /** Why it is broken, as a sentence. */
  readonly why: string | null
}
