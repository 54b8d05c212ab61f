import { z } from 'zod'
import { boundaryLevels, boundaryLevelSchema, phases, phaseSchema } from './boundary.ts'
import { hidePatternSchema } from './hidePattern.ts'
import { hostPatternText } from './hostPatternText.ts'
import { notAHost, parseHostPattern } from './hosts.ts'
import { sandboxLevelSchema } from './level.ts'

/**
 * The config files: the project's `.orangery.json` and the user's `config.json`. One schema is the truth of
 * both; the published JSON schema is generated from it.
 */
export const configSchemaPath = 'resources/schemas/config.v1.json'
export const projectConfigName = '.orangery.json'
export const userConfigName = 'config.json'

const hostText = z
  .string()
  .refine((text) => parseHostPattern(text) !== undefined, {
    error: ({ input }) => notAHost(String(input)),
  })
  .meta({
    id: 'host',
    description: 'A host: example.com, example.com:443 or *.example.org.',
    pattern: hostPatternText,
  })
const toolList = z.strictObject({
  allow: z.array(z.string().min(1)).optional().describe('Only these. Omitted: all.'),
  deny: z.array(z.string().min(1)).optional().describe('Never these; wins over allow.'),
})
// For editors, which check a config by the published schema: as strict as what is read.
const insideText = '^(?!/)(?!(?:[\\s\\S]*/)?\\.\\.(?:/|$))[^\\x00]+$'
const belowRootText = insideText.replace('^', '^(?!(?:\\.?/)*\\.?$)')
const insideRoot = z
  .string()
  .min(1)
  .refine((path) => !path.startsWith('/') && !path.split('/').includes('..') && !path.includes('\0'), {
    error: 'must be a path inside the root, without a leading / and without ..',
  })
  .meta({ pattern: insideText })

export const levelOverrideSchema = z.strictObject({
  hosts: z
    .array(hostText)
    .optional()
    .describe(
      'Hosts an agent at this boundary may reach. Without a list, network reaches what was approved.',
    ),
  deniedHosts: z.array(hostText).optional().describe('Hosts never reached at this boundary.'),
  writable: z
    .array(insideRoot)
    .optional()
    .describe(
      'Files and folders, relative to the first root: all else is read-only. Above readonly, "." is the whole workspace, and without a list a level has that of the level below.',
    ),
  hide: z
    .array(hidePatternSchema)
    .optional()
    .describe(
      'Globs as in .gitignore, relative to each root, that the agent does not see; or absolute, or below ~/.',
    ),
  tools: toolList.optional().describe('Tool names, for agents that can enforce them.'),
  commands: toolList.optional().describe('Shell commands, for agents that can enforce them.'),
})
export const namesRoot = (path: string) => path.split('/').every((part) => part === '' || part === '.')
/** Where the whole root can be written nothing is read-only: that is another level. */
const readonlyLevelSchema = levelOverrideSchema.extend({
  writable: z
    .array(
      insideRoot
        .refine((path) => !namesRoot(path), { error: 'names the whole root: that is readwrite' })
        .meta({ pattern: belowRootText }),
    )
    .optional()
    .describe(
      'Files and folders, relative to the first root, that stay writable where the rest is read-only.',
    ),
})
export type LevelOverride = z.infer<typeof levelOverrideSchema>

export const savedApprovalSchema = z.strictObject({
  agent: z.string().min(1).default('*').describe('Agent card id; * for any agent.'),
  level: boundaryLevelSchema.describe('The boundary this approval reaches up to.'),
  hosts: z.array(hostText).default([]).describe('Hosts it covers. Empty: none beyond those of the level.'),
  roots: z
    .array(z.string().min(1))
    .optional()
    .describe(
      'Folders it covers. In a project file: relative to the project. Omitted: the project; in the user file: all.',
    ),
  phase: phaseSchema.optional().describe('Only in this phase.'),
  expires: z.iso
    .datetime({ offset: true, error: 'not a time: write it as 2027-01-31T18:00:00Z' })
    .optional()
    .describe('From then on it no longer counts.'),
  note: z.string().optional().describe('Why it was given.'),
})
export type SavedApproval = z.infer<typeof savedApprovalSchema>

export const selectionRuleSchema = z.strictObject({
  agent: z.string().min(1).default('*'),
  role: z.string().min(1).default('*'),
  level: sandboxLevelSchema.optional().describe('The level such an agent gets when none was asked for.'),
  minimum: sandboxLevelSchema.optional().describe('Asking for less than this level is refused.'),
})
export type SelectionRule = z.infer<typeof selectionRuleSchema>

const framingHeaders = new Set(
  'host connection content-length transfer-encoding upgrade te trailer keep-alive proxy-connection expect'.split(
    ' ',
  ),
)

export const credentialSchema = z
  .strictObject({
    hosts: z.array(hostText).min(1).describe('Where the secret is sent, and nowhere else.'),
    header: z
      .string()
      .regex(/^[A-Za-z0-9-]+$/, 'not the name of a header')
      .default('Authorization'),
    value: z
      .string()
      .regex(/^[\x20-\x7e]*$/, 'one line of plain text')
      .default('{secret}')
      .describe('What the header says; {secret} stands for the secret, as in "Bearer {secret}".'),
    env: z.string().min(1).optional().describe('The environment variable of yours that holds the secret.'),
    file: z.string().min(1).optional().describe('The file that holds it: absolute, or ~/…'),
    tls: z.boolean().default(true).describe('Send plain requests of the agent on over TLS.'),
    intercept: z
      .boolean()
      .default(false)
      .describe(
        "Also open the agent's own TLS to these hosts, and to no other, to put the secret in. Its programs are told to trust an authority made for that sandbox.",
      ),
  })
  .refine(({ env, file }) => (env === undefined) !== (file === undefined), {
    error: 'name one of env and file',
  })
  // Where a message ends and whom it is for is not a secret's to say.
  .refine(({ header }) => !framingHeaders.has(header.toLowerCase()), {
    error: 'this header says where a request goes or ends, and can hold no secret',
    path: ['header'],
  })
  .refine(({ value }) => value.includes('{secret}'), {
    error: 'must hold {secret}, which stands for the secret, as in "Bearer {secret}"',
    path: ['value'],
  })
  .refine(({ intercept, hosts }) => !intercept || !hosts.some((host) => /^[0-9.:]+$|^\[/.test(host)), {
    error: 'TLS is opened for names only, not for addresses',
  })
export type CredentialConfig = z.infer<typeof credentialSchema>

const perPhase = <T extends z.ZodType>(value: T) =>
  z.strictObject({ plan: value.optional(), build: value.optional(), learn: value.optional() })

const waitRange = 'must be a number of seconds: 0 (denied at once) to 600'

export const configFileSchema = z
  .strictObject({
    $schema: z.string().optional(),
    sandboxEnabled: z
      .boolean()
      .optional()
      .describe('Default true. False runs agents bare (level 0); only the user file may say false.'),
    sandboxBoundaries: perPhase(boundaryLevelSchema)
      .optional()
      .describe('Boundary a phase starts with. Default: plan and learn readonly, build readwrite.'),
    sandboxPhaseFiles: perPhase(z.array(insideRoot))
      .optional()
      .describe('Files a read-only phase may still write. Default: plan TODO.md, learn AGENTS.md.'),
    sandboxLevels: z
      .strictObject({
        readonly: readonlyLevelSchema.optional(),
        readwrite: levelOverrideSchema.optional(),
        network: levelOverrideSchema.optional(),
        full: levelOverrideSchema.optional(),
      })
      .optional()
      .describe('Overrides what a boundary level can do.'),
    sandboxMaximumBoundary: boundaryLevelSchema
      .optional()
      .describe('No dispatch goes beyond this, whoever approves. Default: full.'),
    sandboxEscalationPolicy: z
      .enum(['auto', 'prompt'])
      .optional()
      .describe(
        'prompt (default): a person or a saved approval decides. auto: a denial may also widen by itself, within sandboxAutoEscalation; never in the phases plan and learn.',
      ),
    sandboxEscalationWait: z
      .number({ error: waitRange })
      .min(0, { error: waitRange })
      .max(600, { error: waitRange })
      .optional()
      .describe('Seconds a denied connection is held while you may approve it. Default 0: denied at once.'),
    sandboxAutoEscalation: z
      .strictObject({
        hosts: z.array(hostText).default([]),
        roots: z.array(z.string().min(1)).default([]),
      })
      .optional()
      .describe(
        'User file only: hosts and roots within which the policy auto may widen without asking. Both must match: every root of the dispatch, and the host.',
      ),
    sandboxApprovedEscalations: z
      .array(savedApprovalSchema)
      .optional()
      .describe('Saved approvals: they skip the prompt.'),
    sandboxCredentials: z
      .array(credentialSchema)
      .optional()
      .describe(
        'User file only: secrets the broker adds to plain HTTP requests towards their hosts; the agent never sees them.',
      ),
    sandboxProxyResolves: z
      .boolean()
      .optional()
      .describe(
        'User file only: true hands names to the proxy of your environment, which then says where they lead. Default false: names are resolved here, and the proxy is asked for addresses that were checked.',
      ),
    sandboxSelection: z
      .array(selectionRuleSchema)
      .optional()
      .describe('Which level an agent in a role gets; the first rule that fits decides.'),
    agentForbiddenTools: z
      .array(z.string().min(1))
      .optional()
      .describe(
        'Calls an unattended agent cannot answer; one of them ends the run. Default: AskUserQuestion.',
      ),
    agentInactivityTimeout: z
      .number({ error: 'must be a number of seconds: 0 (never) or more' })
      .nonnegative({ error: 'must be a number of seconds: 0 (never) or more' })
      .optional()
      .describe('Seconds without any sign of life after which an agent is stopped. Default 0: never.'),
    changesetProtectedPaths: z
      .array(z.string().min(1))
      .optional()
      .describe('Globs of paths that need a decision of their own at review, beside the built-in ones.'),
  })
  .describe('Configuration of Orangery: .orangery.json in a project, config.json of the user.')
export type ConfigFile = z.infer<typeof configFileSchema>

/** Where a value came from. */
export const provenanceSchema = z.object({
  source: z.enum(['default', 'user', 'project']),
  file: z.string().nullable(),
  line: z.number().nullable(),
})
export type Provenance = z.infer<typeof provenanceSchema>

/** `changed`: it was trusted, and its text has changed since. */
export const trustStates = ['absent', 'trusted', 'untrusted', 'changed'] as const
export type TrustState = (typeof trustStates)[number]

export const projectConfigStateSchema = z.object({
  root: z.string(),
  file: z.string(),
  trust: z.enum(trustStates),
  sha256: z.string().nullable(),
})
export type ProjectConfigState = z.infer<typeof projectConfigStateSchema>

/** The text a project's config had when it was trusted, and the text it has now: what a person is asked about. */
export const trustQuestionSchema = z.object({
  project: z.string(),
  file: z.string(),
  trust: z.enum(trustStates),
  before: z.string(),
  now: z.string(),
  sha256: z.string().nullable(),
})
export type TrustQuestion = z.infer<typeof trustQuestionSchema>

export const effectiveApprovalSchema = savedApprovalSchema.extend({
  /** SHA-256 of its meaning: editing it makes another approval. */
  id: z.string(),
  source: z.enum(['user', 'project']),
  file: z.string(),
  line: z.number(),
  /** Absolute folders it covers; null: all. */
  covers: z.array(z.string()).nullable(),
  expired: z.boolean(),
})
export type EffectiveApproval = z.infer<typeof effectiveApprovalSchema>

/** `here`: whether it answers anything in one of the folders it is listed for. */
export const listedApprovalSchema = effectiveApprovalSchema.extend({ here: z.boolean() })
export type ListedApproval = z.infer<typeof listedApprovalSchema>

/** As much of an approval's id as people read and type. Whoever trusts by it compares the whole. */
export const shortApprovalId = (id: string): string => id.slice(0, 12)

const resolvedTools = z.object({ allow: z.array(z.string()).nullable(), deny: z.array(z.string()) })
export const resolvedLevelSchema = z.object({
  /** Null: no list given. */
  hosts: z.array(z.string()).nullable(),
  deniedHosts: z.array(z.string()),
  /** Null: no list given. */
  writable: z.array(z.string()).nullable(),
  hide: z.array(z.string()),
  tools: resolvedTools,
  commands: resolvedTools,
})
export type ResolvedLevel = z.infer<typeof resolvedLevelSchema>

export const configNoticeSchema = z.object({
  file: z.string(),
  line: z.number(),
  key: z.string(),
  message: z.string(),
})
export type ConfigNotice = z.infer<typeof configNoticeSchema>

export const effectiveConfigSchema = z.object({
  sandboxEnabled: z.boolean(),
  sandboxBoundaries: z.record(z.enum(phases), boundaryLevelSchema),
  sandboxPhaseFiles: z.record(z.enum(phases), z.array(z.string())),
  sandboxLevels: z.record(z.enum(boundaryLevels), resolvedLevelSchema),
  sandboxMaximumBoundary: boundaryLevelSchema,
  sandboxEscalationPolicy: z.enum(['auto', 'prompt']),
  sandboxEscalationWait: z.number(),
  sandboxAutoEscalation: z.object({ hosts: z.array(z.string()), roots: z.array(z.string()) }),
  sandboxApprovedEscalations: z.array(effectiveApprovalSchema),
  sandboxCredentials: z.array(credentialSchema),
  sandboxProxyResolves: z.boolean(),
  sandboxSelection: z.array(selectionRuleSchema),
  agentForbiddenTools: z.array(z.string()),
  agentInactivityTimeout: z.number(),
  changesetProtectedPaths: z.array(z.string()),
  /** Key, with dots for nested ones → where its value came from; several where values were joined. */
  provenance: z.record(z.string(), z.array(provenanceSchema)),
  /** What a project's file asked for and did not get, because it would widen and is not trusted. */
  heldBack: z.array(configNoticeSchema),
  warnings: z.array(configNoticeSchema),
  projects: z.array(projectConfigStateSchema),
})
export type EffectiveConfig = z.infer<typeof effectiveConfigSchema>
