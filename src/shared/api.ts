import { z } from 'zod'
import { agentCardSchema } from './card.ts'
import { boundaryLevelSchema, phaseSchema } from './boundary.ts'
import {
  applyResultSchema,
  commitRequestSchema,
  changesetSchema,
  changesetStateSchema,
  choices,
  conflictsSchema,
  diffScopes,
  exportFormats,
  givenPlace,
  glimpseSchema,
  isGiven,
  notGiven,
  verdictSchema,
} from './changeset.ts'
import { changesetSummarySchema, dispatchDetailSchema, dispatchRowSchema } from './dispatch.ts'
import { effectiveConfigSchema, listedApprovalSchema, trustQuestionSchema } from './config.ts'
import { diskUseSchema, removedLogSchema } from './disk.ts'
import { doctorReportSchema, preflightReportSchema } from './doctor.ts'
import {
  approvalScopes,
  boundaryRequestSchema,
  boundaryStateSchema,
  narrowingSchema,
  taskApprovalSchema,
} from './escalation.ts'
import { eventProofSchema, loggedEventSchema } from './events.ts'
import { presetExpansionSchema } from './hosts.ts'
import { dispatchIdSchema } from './ids.ts'
import {
  agentCommitSchema,
  archiveEntrySchema,
  archiveRecordSchema,
  discardedAgentSchema,
  invocationEntrySchema,
  invocationMetaSchema,
  landResultSchema,
  orphanSchema,
  sandboxOfWorktreeSchema,
  removedWorktreeSchema,
  stakesSchema,
  waitingLandingSchema,
  worktreeEntrySchema,
  worktreeMetaSchema,
} from './invocation.ts'
import { workspaceStrategySchema } from './spec.ts'

/**
 * The contract: every procedure and event stream of the engine, with its input and output. The window, the
 * command line, the browser host and (later) MCP all speak exactly this, over four transports.
 */
function procedure<I extends z.ZodType, O extends z.ZodType>(input: I, output: O) {
  return { kind: 'procedure', input, output } as const
}
function stream<I extends z.ZodType, O extends z.ZodType>(input: I, output: O) {
  return { kind: 'stream', input, output } as const
}

const nothing = z.object({})
/** A full id or a unique prefix of one; never a name. */
const reference = z.object({ id: z.string().min(1) })
/** Files too large for a patch, which are not in it. */
const leftOut = z.array(z.string()).optional()
/** A patch to read; `text_b64` carries the exact bytes where it is not UTF-8. */
const exactText = { text: z.string(), text_b64: z.string().optional() }
const byId = z.object({ id: dispatchIdSchema })
/** `idle`: where an agent runs on the same folders, the landing waits for it instead of being refused. */
const landsWhen = z.enum(['now', 'idle']).default('now')
const nearReference = reference.extend({ near: z.string().optional() })

// A field that nobody knows may be a contract that is misspelt: without it the agent would start with another.
export const spawnInputSchema = z.strictObject({
  agent: z.string().default('command'),
  /** For the agent `command`: what to run. */
  command: z.array(z.string()).default([]),
  roots: z.array(z.string()).min(1),
  prompt: z.string().optional(),
  system_prompt: z.string().optional(),
  name: z.string().optional(),
  role: z.string().optional(),
  phase: phaseSchema.optional(),
  parent: z.string().optional(),
  /** Legacy string, superseded by `sandbox_spec.access_mode`. */
  sandbox: z.string().optional(),
  /** The contract as the caller wrote it, byte for byte; absent stays NULL. */
  sandbox_spec: z.string().optional(),
  /** Environment variables that pass through, with the caller's values. */
  env: z.record(z.string(), z.string()).default({}),
  invocation: z.string().optional(),
  worktree: z.string().optional(),
  size: z.object({ columns: z.number().int(), rows: z.number().int() }).optional(),
})
export type SpawnInput = z.input<typeof spawnInputSchema>
export type SpawnRequest = z.output<typeof spawnInputSchema>

export const api = {
  'host.info': procedure(
    nothing,
    z.object({
      version: z.string(),
      data_dir: z.string(),
      platform: z.string(),
      home: z.string(),
      host: z.enum(['desktop', 'browser', 'command-line']),
    }),
  ),
  'host.doctor': procedure(nothing, doctorReportSchema),
  'host.directories': procedure(
    z.object({ path: z.string() }),
    z.object({ path: z.string(), exists: z.boolean(), entries: z.array(z.string()) }),
  ),
  'disk.use': procedure(nothing, diskUseSchema),
  /** The size logs are kept up to; null keeps them all. Says what went at once because of it. */
  'disk.keep_logs': procedure(
    z.object({ bytes: z.number().int().nonnegative().nullable() }),
    z.object({ removed: z.array(removedLogSchema) }),
  ),
  'agent.cards': procedure(nothing, z.array(agentCardSchema)),

  /** What presets among allowed hosts (`@npm`) mean where a spawn with the same words runs: to be seen before they are granted. */
  'outputs.expand': procedure(
    z.object({
      rules: z.array(z.string()),
      agent: z.string().default('command'),
      roots: z.array(z.string()).default([]),
      invocation: z.string().optional(),
      worktree: z.string().optional(),
      changeset: workspaceStrategySchema.optional(),
    }),
    z.array(presetExpansionSchema),
  ),

  'dispatch.preflight': procedure(spawnInputSchema, preflightReportSchema),
  /** `notes`: what of the user's work is not in the sandbox, and the like. */
  'dispatch.spawn': procedure(spawnInputSchema, byId.extend({ notes: z.array(z.string()).optional() })),
  'dispatch.list': procedure(
    z.object({
      limit: z.number().int().positive().max(1000).default(100),
      before: z.string().optional(),
      /** Beside the newest also whatever has not ended or waits for a review, however old: it needs a person. */
      waiting: z.boolean().default(false),
    }),
    z.array(dispatchRowSchema),
  ),
  'dispatch.get': procedure(reference, dispatchDetailSchema),
  /** The sandbox spec as it was given, byte for byte; null where none was. */
  'dispatch.spec': procedure(reference, z.object({ text: z.string().nullable() })),
  'dispatch.kill': procedure(reference, byId),
  'dispatch.input': procedure(reference.extend({ data: z.string() }), nothing),
  'dispatch.resize': procedure(
    reference.extend({ columns: z.number().int().positive(), rows: z.number().int().positive() }),
    nothing,
  ),
  'dispatch.events': stream(
    reference.extend({ after: z.number().int().default(0), follow: z.boolean().default(true) }),
    loggedEventSchema,
  ),
  /** Proves the event log whole, or says what is wrong with it. */
  'dispatch.verify': procedure(reference, eventProofSchema),
  /** Terminal output from a byte offset on, or from that many bytes before its end; `data` is base64. */
  'dispatch.output': stream(
    reference.extend({ from: z.number().int().default(0), follow: z.boolean().default(true) }),
    z.object({ offset: z.number(), data: z.string() }),
  ),

  'changeset.list': procedure(nothing, z.array(changesetSummarySchema)),
  'changeset.get': procedure(reference, changesetSchema),
  /** What is different in the workspace now, at a glance: kinds and sizes, at a cost of a walk of what was written. */
  'changeset.peek': procedure(reference, z.array(glimpseSchema)),
  'changeset.diff': procedure(
    reference.extend({
      ...givenPlace,
      stat: z.boolean().default(false),
      include_ignored: z.boolean().default(false),
      /** Everything, what changed since what the caller had read when he last decided something, or in the last turn. */
      scope: z.enum(diffScopes).default('all'),
      /** Only files that were decided on and changed since, each against what it was when it was decided on. */
      inter: z.boolean().default(false),
      /** Somebody reads it: what he then approves without saying what he saw is what was shown here. */
      read: z.boolean().default(false),
    }),
    z.object({
      revision: z.string(),
      ...exactText,
      truncated: z.boolean(),
      left_out: leftOut,
    }),
  ),
  'changeset.decide': procedure(
    reference
      .extend({
        ...givenPlace,
        hunk: z.string().optional(),
        verdict: verdictSchema.nullable(),
        comment: z.string().optional(),
        /**
         * What was seen: the file's anchor, or the changeset's revision; else what the caller was last given the text
         * of. A file that is another one by now is not approved; while its agent runs, nor is one that nobody says
         * anything of.
         */
        anchor: z.string().optional(),
        revision: z.string().optional(),
      })
      .refine(isGiven, notGiven),
    changesetSchema,
  ),
  'changeset.apply': procedure(
    reference.extend({
      all: z.boolean().default(false),
      include_ignored: z.boolean().default(false),
      /** The revision that was reviewed; refused when the changeset has moved since. */
      revision: z.string().optional(),
      when: landsWhen,
      /** Also makes a commit of it, or takes over the agent's own commits, on a branch of the first root. */
      commit: commitRequestSchema.optional(),
    }),
    applyResultSchema,
  ),
  /** What an apply would do and run into, as chosen; reads only. Unless told, one of all that may land. */
  'changeset.conflicts': procedure(
    reference.extend({ all: z.boolean().default(true), include_ignored: z.boolean().default(true) }),
    conflictsSchema,
  ),
  /** Both sides of a conflict, and the two in one text with marks where they contradict each other. */
  'changeset.conflict_texts': procedure(
    reference.extend(givenPlace).refine(isGiven, notGiven),
    z.object({ mine_b64: z.string(), theirs_b64: z.string(), both_b64: z.string() }),
  ),
  'changeset.resolve': procedure(
    reference
      // The content is the whole file, for `edit`. Null takes back what was chosen.
      .extend({ ...givenPlace, choice: z.enum(choices).nullable(), content_b64: z.string().optional() })
      .refine(isGiven, notGiven),
    conflictsSchema,
  ),
  /** For a path that an apply stopped at after a crash, since it was neither old nor new. */
  'changeset.settle': procedure(
    reference.extend({ ...givenPlace, choice: z.enum(['mine', 'theirs']) }).refine(isGiven, notGiven),
    applyResultSchema.pick({ id: true, state: true, notes: true }),
  ),
  'changeset.escalate': procedure(reference.extend({ why: z.string().nullable() }), changesetSchema),
  /** Brings a rejected or abandoned changeset back to review. */
  'changeset.restore': procedure(reference, z.object({ id: dispatchIdSchema, state: changesetStateSchema })),
  /** A file in pieces, however large it is. What was left out comes with the first. */
  'changeset.export': stream(
    reference.extend({ format: z.enum(exportFormats), include_ignored: z.boolean().default(false) }),
    z.object({ name: z.string(), data_b64: z.string(), left_out: leftOut }),
  ),
  /** Takes back all that has landed of it; `last`: only what the last apply landed. */
  'changeset.undo': procedure(
    reference.extend({ when: landsWhen, last: z.boolean().default(false) }),
    applyResultSchema,
  ),
  'changeset.reject': procedure(
    reference.extend({ comment: z.string() }),
    z.object({ id: dispatchIdSchema, state: changesetStateSchema }),
  ),
  /** What the presets it was spawned with would open to its next turn. */
  'changeset.rework_outputs': procedure(reference, z.array(presetExpansionSchema)),
  /** Sends it back to its agent, with all that was said in the review: the next turn, as a dispatch of its own. */
  'changeset.rework': procedure(
    reference.extend({
      comment: z.string().default(''),
      env: z.record(z.string(), z.string()).default({}),
    }),
    z.object({
      id: dispatchIdSchema,
      state: changesetStateSchema,
      dispatch: dispatchIdSchema,
      turn: z.number(),
    }),
  ),
  'changeset.abandon': procedure(
    reference,
    z.object({
      id: dispatchIdSchema,
      state: changesetStateSchema,
      /** Of the agent, and the user's own in its sandbox: they go to the archive with it. */
      commits: z.number().default(0),
      /** What else was in the sandbox. */
      notes: z.array(z.string()).default([]),
    }),
  ),

  'worktree.create': procedure(
    z.object({ repo: z.string(), name: z.string(), base: z.string().optional() }),
    worktreeMetaSchema,
  ),
  'worktree.list': procedure(
    z.object({ all: z.boolean().default(false) }),
    z.array(worktreeEntrySchema.extend({ sandboxes: z.array(sandboxOfWorktreeSchema) })),
  ),
  'worktree.get': procedure(nearReference, worktreeEntrySchema.extend({ stakes: stakesSchema.nullable() })),
  'worktree.remove': procedure(
    nearReference.extend({ force: z.boolean().default(false) }),
    removedWorktreeSchema,
  ),
  'agent.start': procedure(
    z.object({
      worktree: z.string(),
      /** The caller's folder: names of its project come first. */
      near: z.string().optional(),
      name: z.string().optional(),
      runner: z.string().optional(),
      mode: z.enum(['headed', 'headless']).default('headless'),
    }),
    invocationMetaSchema,
  ),
  /** `running`: an agent is at work in it now, whatever its record says. */
  'agent.list': procedure(
    z.object({ all: z.boolean().default(false) }),
    z.array(invocationEntrySchema.extend({ running: z.boolean() })),
  ),
  'agent.get': procedure(
    reference,
    invocationEntrySchema.extend({
      commits: z.array(agentCommitSchema),
      /** What else the agent committed, which could not be had. */
      missing: z.array(z.object({ path: z.string(), why: z.string() })).default([]),
    }),
  ),
  /** One commit of an agent as a patch. */
  'agent.commit': procedure(reference.extend({ commit: z.string() }), z.object(exactText)),
  'agent.land': procedure(
    reference.extend({
      how: z.enum(['merge', 'squash', 'apply']).default('merge'),
      message: z.string().optional(),
      all: z.boolean().default(false),
      include_ignored: z.boolean().default(false),
      when: landsWhen,
    }),
    landResultSchema,
  ),
  'agent.discard': procedure(reference, discardedAgentSchema),
  /** Landings that wait for running agents, or for a person where they could not be made. */
  'landing.list': procedure(nothing, z.array(waitingLandingSchema)),
  'landing.cancel': procedure(reference, byId),
  'archive.list': procedure(nothing, z.array(archiveEntrySchema)),
  'archive.restore': procedure(byId, archiveRecordSchema),
  /**
   * What is on disk, in a repository or in the database and belongs to nothing; shown, never deleted. Without
   * `fresh`: as it was found when the host started.
   */
  'workspace.orphans': procedure(z.object({ fresh: z.boolean().default(true) }), z.array(orphanSchema)),

  'boundary.show': procedure(reference, boundaryStateSchema),
  /** Files a request; the answer may be in it already. With `wait_s` it waits for one. */
  'boundary.request': procedure(
    reference.extend({
      to: boundaryLevelSchema,
      hosts: z.array(z.string()).default([]),
      reason: z.string(),
      /** Who asks: an agent's requests are grouped with a denial and limited in number. */
      source: z.enum(['agent', 'user']).default('user'),
      wait_s: z.number().nonnegative().max(3600).default(0),
    }),
    boundaryRequestSchema,
  ),
  /** Without `request`: all that are open. */
  'boundary.approve': procedure(
    reference.extend({
      request: z.string().optional(),
      scope: z.enum(approvalScopes).default('once'),
      /** When an approval that is saved to the project or the user ends to count. */
      expires: z.iso.datetime({ offset: true }).optional(),
      /** Folders that an approval which is saved covers; all of the project, or of the user's, where there are none. */
      roots: z.array(z.string().min(1)).max(20).optional(),
      message: z.string().default(''),
      /** The boundary it was shown at to who says yes: what would open more by now is refused. */
      shown: boundaryLevelSchema.optional(),
    }),
    z.array(boundaryRequestSchema),
  ),
  'boundary.deny': procedure(
    reference.extend({ request: z.string().optional(), message: z.string().default('') }),
    z.array(boundaryRequestSchema),
  ),
  /** Takes rights back from a running agent: a level, single hosts, or both. Without `to` the level stays. */
  'boundary.narrow': procedure(narrowingSchema, boundaryStateSchema),
  /** What waits for a person, over all dispatches. */
  'boundary.inbox': procedure(nothing, z.array(boundaryRequestSchema)),
  'boundary.approvals': procedure(
    z.object({ roots: z.array(z.string()).default([]) }),
    z.object({ saved: z.array(listedApprovalSchema), tasks: z.array(taskApprovalSchema) }),
  ),
  'boundary.revoke': procedure(
    z.object({ approval: z.string().min(1), roots: z.array(z.string()).default([]) }),
    z.object({ removed: z.array(z.string()) }),
  ),

  'config.show': procedure(z.object({ roots: z.array(z.string()).default([]) }), effectiveConfigSchema),
  /** A project's own config as it was trusted and as it is now. */
  'config.question': procedure(z.object({ root: z.string() }), trustQuestionSchema),
  /** Trusts exactly the text of that hash; null takes trust back. */
  'config.trust': procedure(
    z.object({ root: z.string(), sha256: z.string().nullable() }),
    trustQuestionSchema,
  ),

  /** Says which dispatches changed; whoever shows them asks again. */
  changes: stream(nothing, z.object({ ids: z.array(z.string()) })),
} as const

export type Api = typeof api
export type Name = keyof Api
export type ProcedureName = { [K in Name]: Api[K]['kind'] extends 'procedure' ? K : never }[Name]
export type StreamName = { [K in Name]: Api[K]['kind'] extends 'stream' ? K : never }[Name]
/** What a caller passes (defaults may be left out) and what a handler receives (defaults filled in). */
export type Input<K extends Name> = z.input<Api[K]['input']>
export type Received<K extends Name> = z.output<Api[K]['input']>
export type Output<K extends Name> = z.output<Api[K]['output']>

/** Who is calling; written into transitions and events as `by`. */
export type Caller = {
  readonly by: string
  /** Aborted when the caller takes this call back. Who heeds it leaves nothing half made. */
  readonly signal?: AbortSignal
}

export type Handlers = {
  [K in ProcedureName]: (input: Received<K>, caller: Caller) => Promise<Output<K>>
} & {
  [K in StreamName]: (input: Received<K>, signal: AbortSignal, caller: Caller) => AsyncIterable<Output<K>>
}

/** The same contract seen from the calling side, whatever lies between. */
export interface Client {
  /** `signal` asks to take the call back; what came of that is told by how it settles. */
  call<K extends ProcedureName>(name: K, input: Input<K>, signal?: AbortSignal): Promise<Output<K>>
  /** Ends when the stream ends, throws when it fails; `signal` cancels it. */
  open<K extends StreamName>(name: K, input: Input<K>, signal?: AbortSignal): AsyncIterable<Output<K>>
  close(): void
}
