import { z } from 'zod'
import { sandboxLevelSchema } from './level.ts'
import { rootModes } from './spec.ts'

export const cardRequirementsSchema = z.looseObject({
  hosts: z.array(z.string()).default([]),
  /** Names of variables of the user's that the agent is given, where they are set. */
  env: z.array(z.string()).default([]),
  read: z.array(z.string()).default([]),
  home: z.enum(['fresh', 'keep']).default('fresh'),
  /** What it may do with a root, where the contract does not say: by its path, its name, or `*` for every root. */
  rootModes: z
    .record(z.string().regex(/^(?:\*|\/.*|[^/*]+)$/, 'a path, the name of a folder, or *'), z.enum(rootModes))
    .optional(),
})

export const cardAuthSchema = z.looseObject({
  check: z.array(z.string()).optional(),
  file: z.string().optional(),
  hint: z.string().optional(),
})

/** How an agent is started, what it needs and how it speaks. JSON files in `resources/agents` and the user's config. */
export const agentCardSchema = z.looseObject({
  id: z.string().regex(/^[a-z0-9][a-z0-9._-]*$/, 'lowercase letters, digits, dot, dash and underscore'),
  name: z.string(),
  description: z.string().default(''),
  /** Arguments may hold {prompt} and {system_prompt}. Empty: the caller gives the command. */
  command: z.array(z.string()).default([]),
  /** The same for a later turn in the same workspace and home, where it differs: to go on with a conversation. */
  reworkCommand: z.array(z.string()).min(1).optional(),
  protocol: z
    .enum(['terminal', 'acp', 'claude-stream-json', 'codex-json', 'opencode-json', 'pi-rpc'])
    .default('terminal'),
  sandboxLevel: sandboxLevelSchema.default(1),
  sandboxRequirements: cardRequirementsSchema.prefault({}),
  auth: cardAuthSchema.optional(),
})
export type AgentCard = z.infer<typeof agentCardSchema>
