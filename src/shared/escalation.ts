import { z } from 'zod'
import { boundaryChangeSchema, boundaryLevelSchema } from './boundary.ts'
import { dispatchIdSchema } from './ids.ts'

/**
 * Where a request came from. `broker` and `driver` are denials they reported, never a text an agent printed.
 * `output` is such a text: no request is made of one any more, and those of old records only a person grants.
 * `config` asks for nothing: it says that an agent could not be brought down to a maximum that was lowered.
 */
export const requestSources = ['agent', 'broker', 'driver', 'user', 'output', 'config'] as const
export type RequestSource = (typeof requestSources)[number]

export const requestStatuses = ['open', 'approved', 'denied', 'expired', 'closed'] as const
export type RequestStatus = (typeof requestStatuses)[number]

/** How far a person's yes reaches. */
export const approvalScopes = ['once', 'task', 'project', 'user'] as const
export type ApprovalScope = (typeof approvalScopes)[number]

/** `saved`: an earlier yes of a person, in a file or for the task. `auto`: the policy, on a reported denial. */
export const answerWays = [...approvalScopes, 'saved', 'auto', 'policy', 'config'] as const
export type AnswerWay = (typeof answerWays)[number]

export const boundaryRequestSchema = z.object({
  id: z.string(),
  dispatch: dispatchIdSchema,
  to: boundaryLevelSchema,
  hosts: z.array(z.string()),
  source: z.enum(requestSources),
  by: z.string(),
  why: z.string(),
  status: z.enum(requestStatuses),
  /** How often the same thing was asked for while it was open. */
  count: z.number().int().positive(),
  created_at: z.string(),
  last_at: z.string(),
  expires_at: z.string(),
  answer: z
    .object({ at: z.string(), by: z.string(), way: z.enum(answerWays), message: z.string() })
    .nullable(),
})
export type BoundaryRequest = z.infer<typeof boundaryRequestSchema>

/** One change of a running dispatch's boundary, with the hosts that hold from then on. */
export const boundaryGrantSchema = boundaryChangeSchema.extend({
  hosts: z.array(z.string()),
  /** Hosts that a person took back, whoever allows them. */
  taken: z.array(z.string()),
  /** Hosts that were granted since, and count in spite of `taken`. */
  returned: z.array(z.string()),
  /** `closed`: narrowed to the level that it had, which takes what is open at every level. */
  way: z.enum([...answerWays, 'narrowed', 'closed', 'undone']),
  request: z.string().nullable(),
})
export type BoundaryGrant = z.infer<typeof boundaryGrantSchema>

/** A yes that holds for a dispatch, its children and its later turns. */
export const taskApprovalSchema = z.object({
  id: z.string(),
  task: z.string(),
  agent: z.string(),
  level: boundaryLevelSchema,
  hosts: z.array(z.string()),
  by: z.string(),
  at: z.string(),
  revoked_at: z.string().nullable(),
})
export type TaskApproval = z.infer<typeof taskApprovalSchema>

export const boundaryStateSchema = z.object({
  id: dispatchIdSchema,
  level: boundaryLevelSchema.nullable(),
  hosts: z.array(z.string()),
  /** Hosts that a person took back and nobody has given again. */
  taken: z.array(z.string()),
  running: z.boolean(),
  /** False at level 0, where nothing holds it to its boundary. */
  enforced: z.boolean(),
  /** What still holds, where the level is decided and has not taken yet: files that are open for writing take a while. */
  in_effect: boundaryLevelSchema.optional(),
  history: z.array(boundaryGrantSchema),
  requests: z.array(boundaryRequestSchema),
})
export type BoundaryState = z.infer<typeof boundaryStateSchema>

/** What is to go: without `to` the level stays, without hosts all that were granted go with it. */
export const narrowingSchema = z
  .object({
    id: z.string().min(1),
    to: boundaryLevelSchema.optional(),
    hosts: z.array(z.string()).max(100).default([]),
    reason: z.string().default(''),
  })
  .refine(({ to, hosts }) => to !== undefined || hosts.length > 0, 'name a level, or a host to take back')
