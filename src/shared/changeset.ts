import { z } from 'zod'
import { dispatchIdSchema } from './ids.ts'

export const changesetStates = ['active', 'review', 'applied', 'rejected', 'abandoned'] as const
export type ChangesetState = (typeof changesetStates)[number]
export const changesetStateSchema = z.enum(changesetStates)

export const verdicts = ['approve', 'reject', 'rework'] as const
export type Verdict = (typeof verdicts)[number]
export const verdictSchema = z.enum(verdicts)
/** Null: nobody has decided yet. */
export const decisionSchema = verdictSchema.nullable()
export type Decision = z.infer<typeof decisionSchema>

export const changeKinds = ['added', 'modified', 'deleted', 'renamed', 'mode', 'type'] as const
export type ChangeKind = (typeof changeKinds)[number]

export const hunkSchema = z.object({
  /** Names the hunk by its content, so that it survives the agent's next turn. */
  id: z.string(),
  header: z.string(),
  decision: decisionSchema,
  insertions: z.number(),
  deletions: z.number(),
})
export type Hunk = z.infer<typeof hunkSchema>

export const changedFileSchema = z.object({
  root: z.string(),
  path: z.string(),
  /** Present when the path is not UTF-8; then `path` shows replacement characters. */
  path_b64: z.string().optional(),
  from_path: z.string().optional(),
  change: z.enum(changeKinds),
  kind: z.enum(['file', 'symlink', 'directory']),
  binary: z.boolean(),
  mode_before: z.string().nullable(),
  mode_after: z.string().nullable(),
  sha256_before: z.string().nullable(),
  sha256_after: z.string().nullable(),
  size_before: z.number().nullable(),
  size_after: z.number().nullable(),
  insertions: z.number(),
  deletions: z.number(),
  protected: z.boolean(),
  ignored: z.boolean(),
  /** Why this entry can never land (device node, link leaving the roots, …), or null. */
  refused: z.string().nullable(),
  hunks: z.array(hunkSchema),
  decision: decisionSchema,
})
export type ChangedFile = z.infer<typeof changedFileSchema>

export const transitionSchema = z.object({
  at: z.string(),
  from: changesetStateSchema.nullable(),
  to: changesetStateSchema,
  by: z.string(),
  why: z.string(),
})
export type Transition = z.infer<typeof transitionSchema>

export const changesetSchema = z.object({
  id: dispatchIdSchema,
  state: changesetStateSchema,
  roots: z.array(z.string()),
  /** Names exactly what is shown; `apply` refuses when it has moved on. */
  revision: z.string(),
  files: z.array(changedFileSchema),
  insertions: z.number(),
  deletions: z.number(),
  /** Changes under `.git` and other entries that were seen and dropped, each with a reason. */
  dropped: z.array(z.object({ root: z.string(), path: z.string(), why: z.string() })),
  transitions: z.array(transitionSchema),
})
export type Changeset = z.infer<typeof changesetSchema>

export const applyResultSchema = z.object({
  id: dispatchIdSchema,
  state: changesetStateSchema,
  applied: z.array(z.object({ root: z.string(), path: z.string() })),
  skipped: z.array(z.object({ path: z.string(), why: z.string() })),
})
export type ApplyResult = z.infer<typeof applyResultSchema>
