import { z } from 'zod'
import {
  accessModeOfBoundary,
  accessModeSchema,
  boundaryLevelSchema,
  phaseSchema,
  type BoundaryLevel,
  boundaryOfAccessMode,
} from './boundary.ts'
import { OrangeryError } from './errors.ts'
import { isolations } from './level.ts'

export const workspaceStrategies = ['overlay', 'clone', 'worktree', 'none'] as const
export type WorkspaceStrategy = (typeof workspaceStrategies)[number]
export const workspaceStrategySchema = z.enum(workspaceStrategies)

export const platforms = ['mac', 'linux', 'container', 'cloud', 'hybrid'] as const
export type Platform = (typeof platforms)[number]
export const outputModes = ['none', 'restricted', 'open'] as const
export type OutputMode = (typeof outputModes)[number]

const absolutePath = z.string().startsWith('/', 'must be an absolute path')
const names = z.array(z.string())
const positive = z.number().positive()
const count = z.number().int().nonnegative()

export const outputsSchema = z.looseObject({
  mode: z.enum(outputModes).optional(),
  allow: names.optional(),
  deny: names.optional(),
  pins: z.record(z.string(), z.string()).optional(),
})
export type Outputs = z.infer<typeof outputsSchema>

export const limitsSchema = z.looseObject({
  cpus: positive.optional(),
  memory_mb: positive.optional(),
  pids: positive.int().optional(),
  disk_mb: positive.optional(),
  timeout_s: positive.optional(),
})
export type Limits = z.infer<typeof limitsSchema>

/**
 * What was requested. Every field is optional; unknown ones are kept, because the stored text is what the
 * caller gave and drivers of a later release may read more of it.
 */
export const sandboxSpecSchema = z.looseObject({
  tools_allowed: names.optional(),
  tools_denied: names.optional(),
  working_dir: absolutePath.optional(),
  access_mode: accessModeSchema.optional(),
  max_turns: count.optional(),
  max_commands: count.optional(),
  changeset: workspaceStrategySchema.optional(),
  platform: z.enum(platforms).optional(),
  isolation: z.enum(isolations).optional(),
  outputs: outputsSchema.optional(),
  software: z.string().min(1).optional(),
  boundary: boundaryLevelSchema.optional(),
  phase: phaseSchema.optional(),
  roots: z.array(absolutePath).optional(),
  hide: names.optional(),
  on_limit: z.enum(['record', 'stop']).optional(),
  limits: limitsSchema.optional(),
})
export type SandboxSpec = z.infer<typeof sandboxSpecSchema>

function issueText(issue: z.core.$ZodIssue): string {
  const path = issue.path.map(String).join('.')
  return path === '' ? issue.message : `${path}: ${issue.message}`
}

/** Reads a spec from the caller's text. The text itself stays the record; this is what drivers act on. */
export function parseSandboxSpec(text: string): SandboxSpec {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new OrangeryError('spec.not_json', `sandbox spec: not JSON (${(error as Error).message})`, {
      kind: 'input',
      hint: 'Give one JSON object, for example {"access_mode":"read-only"}, or @file.json.',
    })
  }
  const parsed = sandboxSpecSchema.safeParse(value)
  if (!parsed.success) {
    const why = parsed.error.issues.map(issueText).join('; ')
    throw new OrangeryError('spec.invalid', `sandbox spec: ${why}`, {
      kind: 'input',
      hint: 'SandboxSpec fields and their values are listed in docs/sandbox-spec.md.',
      details: parsed.error.issues,
    })
  }
  const spec = parsed.data
  if (spec.access_mode !== undefined && spec.boundary !== undefined) {
    if (accessModeOfBoundary[spec.boundary] !== spec.access_mode) {
      throw new OrangeryError(
        'spec.contradiction',
        `sandbox spec: access_mode "${spec.access_mode}" and boundary "${spec.boundary}" say different things`,
        { kind: 'input', hint: 'Give one of them; they are the same setting in two vocabularies.' },
      )
    }
  }
  return spec
}

/** The boundary a spec asks for, if it asks for one. */
export function requestedBoundary(spec: SandboxSpec | null): BoundaryLevel | undefined {
  if (spec?.boundary !== undefined) return spec.boundary
  return spec?.access_mode === undefined ? undefined : boundaryOfAccessMode[spec.access_mode]
}
