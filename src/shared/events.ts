import { z } from 'zod'
import { boundaryLevelSchema } from './boundary.ts'
import { ceilingSchema, declaredEqualsActualSchema, limitsBySchema, violationSchema } from './effective.ts'
import { dispatchStatusSchema } from './dispatch.ts'
import { sandboxLevelSchema } from './level.ts'
import { rootModesSchema } from './spec.ts'

/**
 * Everything a dispatch's log can say. The supervisor writes these outside the sandbox's reach; terminal
 * output itself is in `output.log`, the log carries how much of it there was by then.
 */
export const eventBodySchema = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('DispatchStarting'),
    level: sandboxLevelSchema,
    command: z.array(z.string()),
    roots: z.array(z.string()),
    /** What it begins under, so that the log proves it without any other file; not in logs of older releases. */
    boundary: boundaryLevelSchema.optional(),
    strategy: z.string().optional(),
    ceiling: ceilingSchema.optional(),
    root_modes: rootModesSchema.optional(),
  }),
  z.object({
    type: z.literal('WorkspaceReady'),
    strategy: z.string(),
    detail: z.string(),
    driver: z.string().optional(),
  }),
  z.object({
    type: z.literal('SandboxReady'),
    driver: z.string(),
    plan: z.string(),
    limits_by: limitsBySchema.optional(),
  }),
  z.object({ type: z.literal('SelfProbe'), result: declaredEqualsActualSchema }),
  z.object({ type: z.literal('AgentStarted'), pid: z.number() }),
  z.object({ type: z.literal('Output'), bytes: z.number() }),
  z.object({
    type: z.literal('AgentMessage'),
    role: z.enum(['user', 'agent', 'thought']),
    text: z.string(),
    /** Messages and calls of one turn carry the same word, where the protocol tells. */
    turn: z.string().optional(),
  }),
  z.object({
    type: z.literal('ToolCall'),
    id: z.string(),
    tool: z.string(),
    title: z.string(),
    input: z.unknown().optional(),
    turn: z.string().optional(),
  }),
  z.object({ type: z.literal('ToolResult'), id: z.string(), ok: z.boolean(), text: z.string() }),
  z.object({
    type: z.literal('BoundaryRequested'),
    request: z.string(),
    to: boundaryLevelSchema,
    by: z.string(),
    why: z.string(),
    hosts: z.array(z.string()),
  }),
  z.object({ type: z.literal('BoundaryDenied'), request: z.string(), by: z.string(), why: z.string() }),
  z.object({
    type: z.literal('BoundaryEscalated'),
    from: boundaryLevelSchema.nullable(),
    to: boundaryLevelSchema,
    by: z.string(),
    why: z.string(),
    /** Hosts granted from then on, beside those of the contract. */
    hosts: z.array(z.string()).optional(),
    /** Hosts that a person took back, and that are out of reach from then on, whoever allows them. */
    taken: z.array(z.string()).optional(),
  }),
  /** A change that did not take: `level` goes on holding. */
  z.object({
    type: z.literal('BoundaryKept'),
    level: boundaryLevelSchema,
    wished: boundaryLevelSchema,
    by: z.string(),
    why: z.string(),
  }),
  z.object({
    type: z.literal('EgressDecided'),
    host: z.string(),
    /** Null where a program asked for the host's address, got none, and so never named a port. */
    port: z.number().nullable(),
    allowed: z.boolean(),
    why: z.string(),
    /** How often, where equal decisions followed each other too quickly to be told one by one. */
    count: z.number().optional(),
  }),
  z.object({
    /** What went over since the start, now and then while something does. */
    type: z.literal('EgressCarried'),
    hosts: z.array(z.object({ host: z.string(), connections: z.number(), bytes: z.number() })),
  }),
  z.object({ type: z.literal('Violated'), violation: violationSchema }),
  z.object({ type: z.literal('ChangesetCaptured'), revision: z.string(), files: z.number() }),
  z.object({
    type: z.literal('AgentEnded'),
    exit_code: z.number().nullable(),
    signal: z.string().nullable(),
  }),
  z.object({ type: z.literal('DispatchEnded'), status: dispatchStatusSchema, error: z.string().nullable() }),
  z.object({ type: z.literal('Note'), text: z.string() }),
  /** A line that a crash tore was moved out of the log, to the file of this name beside it. */
  z.object({ type: z.literal('LogRepaired'), bytes: z.number(), moved_to: z.string() }),
])
export type EventBody = z.infer<typeof eventBodySchema>
/** The turn an event begins, after `last`; null where it belongs to that one or to none. */
export function turnBegun(event: EventBody, last: string | null): string | null {
  if (event.type === 'AgentMessage' && event.role === 'user') return null
  if (event.type !== 'AgentMessage' && event.type !== 'ToolCall') return null
  if (event.turn !== undefined) return event.turn === last ? null : event.turn
  return event.type === 'AgentMessage' && event.role === 'agent' ? '' : null
}

export type EventType = EventBody['type']

/** One line of the log. `hash` covers the line without itself and, through `prev`, all before it. */
export const loggedEventSchema = z.object({
  seq: z.number(),
  at: z.string(),
  prev: z.string(),
  hash: z.string(),
  event: eventBodySchema,
})
export type LoggedEvent = z.infer<typeof loggedEventSchema>

/** Whether a log is what its supervisor wrote. */
export const eventProofSchema = z.object({
  ok: z.boolean(),
  /** Events proven: all of them when `ok`, those before the damage otherwise. */
  events: z.number(),
  problem: z.string().nullable(),
  /** What crashes tore and a repair moved beside the log; never a line that was complete. */
  torn: z.array(z.object({ bytes: z.number(), moved_to: z.string() })).optional(),
})
export type EventProof = z.infer<typeof eventProofSchema>
