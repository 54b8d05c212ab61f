import { z } from 'zod'
import { boundaryLevelSchema } from './boundary.ts'
import { changesetStateSchema } from './changeset.ts'
import { dispatchIdSchema, type DispatchId } from './ids.ts'
import { sandboxLevelSchema } from './level.ts'

export const dispatchStatuses = [
  'preflight_failed',
  'starting',
  'running',
  'completed',
  'failed',
  'timeout',
  'cancelled',
  'interrupted',
] as const
export type DispatchStatus = (typeof dispatchStatuses)[number]
export const dispatchStatusSchema = z.enum(dispatchStatuses)

export const isTerminal = (status: DispatchStatus): boolean => status !== 'starting' && status !== 'running'

export const changesetSummarySchema = z.object({
  id: dispatchIdSchema,
  state: changesetStateSchema,
  files: z.number(),
  insertions: z.number(),
  deletions: z.number(),
  /** Why a human is asked to look; only where lists of changesets tell it. */
  escalated: z.string().nullable().optional(),
  /** The folders it is about, and when it last changed; only there, too. */
  roots: z.array(z.string()).optional(),
  updated_at: z.string().optional(),
})
export type ChangesetSummary = z.infer<typeof changesetSummarySchema>

/** A row of any age has an id, whatever programs before us made it look like. */
const recordedIdSchema = z.string().transform((id) => id as DispatchId)

/** One dispatch as lists show it. */
export const dispatchRowSchema = z.object({
  id: recordedIdSchema,
  parent_id: z.string().nullable(),
  name: z.string().nullable(),
  agent: z.string(),
  role: z.string().nullable(),
  phase: z.string().nullable(),
  prompt: z.string().nullable(),
  status: dispatchStatusSchema,
  /** The word another program recorded, where it is none of ours; `status` is then `interrupted`. */
  recorded_status: z.string().optional(),
  sandbox: z.string().nullable(),
  exit_code: z.number().nullable(),
  error: z.string().nullable(),
  created_at: z.string(),
  started_at: z.string().nullable(),
  ended_at: z.string().nullable(),
  level: sandboxLevelSchema.nullable(),
  boundary: boundaryLevelSchema.nullable(),
  roots: z.array(z.string()),
  command: z.array(z.string()),
  changeset: changesetSummarySchema.nullable(),
})
export type DispatchRow = z.infer<typeof dispatchRowSchema>

/** One dispatch in full: `sandbox_spec` and `sandbox_effective` nested as objects, exactly as stored. */
export const dispatchDetailSchema = dispatchRowSchema.extend({
  sandbox_spec: z.unknown().nullable(),
  sandbox_effective: z.unknown().nullable(),
  /** False at level 0: nothing holds it to its boundary. */
  boundary_enforced: z.boolean().optional(),
})
export type DispatchDetail = z.infer<typeof dispatchDetailSchema>
