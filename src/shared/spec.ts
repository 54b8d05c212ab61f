import { parseTree, type Node } from 'jsonc-parser'
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
import { hidePatternSchema } from './hidePattern.ts'
import { isolationOfLevel, isolations, levelOfIsolation, parseLevel, type SandboxLevel } from './level.ts'

export const workspaceStrategies = ['overlay', 'clone', 'worktree', 'none'] as const
export type WorkspaceStrategy = (typeof workspaceStrategies)[number]
export const workspaceStrategySchema = z.enum(workspaceStrategies)

export const platforms = ['mac', 'linux', 'container', 'cloud', 'hybrid'] as const
export type Platform = (typeof platforms)[number]
export const outputModes = ['none', 'restricted', 'open'] as const
export type OutputMode = (typeof outputModes)[number]

const absolutePath = z
  .string()
  .startsWith('/', 'must be an absolute path')
  .refine((path) => !path.includes('\0'), 'a path cannot hold a NUL character')
  // `/project/../etc` begins like a path inside /project. (escape: child-root-dots)
  .refine((path) => !path.split('/').includes('..'), 'must be without ..')
/** What an agent may do with one root: see it and write, see it only, or not even that. */
export const rootModes = ['rw', 'ro', 'hidden'] as const
export type RootMode = (typeof rootModes)[number]
/** By the root's path as it was named. A root that is not there is `rw`. */
export const rootModesSchema = z.record(absolutePath, z.enum(rootModes))
export type RootModes = Readonly<Record<string, RootMode>>
const levelWord = z
  .union([z.number(), z.string()])
  .refine((level) => parseLevel(String(level)) !== undefined, 'must be 0 to 3 or the name of a level')
const names = z.array(z.string())
const positive = z.number().positive()
const count = z.number().int().nonnegative()

export const outputsSchema = z.looseObject({
  mode: z.enum(outputModes).optional(),
  allow: names.optional(),
  deny: names.optional(),
  pins: z.record(z.string(), z.string()).optional(),
  /** Plain HTTP is held to GET, HEAD and OPTIONS. */
  read_only: z.boolean().optional(),
})
export type Outputs = z.infer<typeof outputsSchema>

/** Beyond these a limit is no limit but a slip, and no counter of the host holds it. */
const mostMegabytes = 2 ** 33
const mostSeconds = 100 * 366 * 86_400

export const limitsSchema = z.looseObject({
  cpus: positive.max(1_000_000).optional(),
  memory_mb: positive.max(mostMegabytes).optional(),
  pids: positive.int().optional(),
  disk_mb: positive.max(mostMegabytes).optional(),
  timeout_s: positive.max(mostSeconds).optional(),
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
  /** `isolation` in the other vocabulary: 0 to 3 or a level's name. */
  level: levelWord.optional(),
  outputs: outputsSchema.optional(),
  software: z.string().min(1).optional(),
  boundary: boundaryLevelSchema.optional(),
  phase: phaseSchema.optional(),
  roots: z.array(absolutePath).min(1, 'names no folder').optional(),
  root_modes: rootModesSchema.optional(),
  hide: z.array(hidePatternSchema).optional(),
  on_limit: z.enum(['record', 'stop']).optional(),
  limits: limitsSchema.optional(),
})
export type SandboxSpec = z.infer<typeof sandboxSpecSchema>

export const maximumSpecBytes = 1024 * 1024
const maximumSpecDepth = 500

function specError(code: string, why: string, hint: string, details?: unknown): OrangeryError {
  return new OrangeryError(`spec.${code}`, `sandbox spec: ${why}`, { kind: 'input', hint, details })
}

export const tooLarge = (): OrangeryError =>
  specError('too_large', 'larger than 1 MiB', 'A spec is a contract, not a container for data.')

function contradiction(why: string): OrangeryError {
  return specError('contradiction', why, 'Give one of them; they are the same setting in two vocabularies.')
}

function issueText(issue: z.core.$ZodIssue): string {
  const path = issue.path.map(String).join('.')
  return path === '' ? issue.message : `${path}: ${issue.message}`
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw specError(
      'not_json',
      `not JSON (${(error as Error).message})`,
      'Give one JSON object, for example {"access_mode":"read-only"}, or @file.json.',
    )
  }
}

function readTree(text: string): Node | undefined {
  try {
    return parseTree(text)
  } catch {
    throw specError('too_deep', 'nested too deeply', 'A spec is a contract, not a container for data.')
  }
}

/** Objects of a spec that drivers act on, with the fields they act on: null for all of them. */
const actedOn: ReadonlyMap<string, object | null> = new Map<string, object | null>([
  ['', sandboxSpecSchema.shape],
  ['outputs.', outputsSchema.shape],
  ['outputs.pins.', null],
  ['limits.', limitsSchema.shape],
  ['root_modes.', null],
])

/**
 * A field given twice reads differently in different programs: the reviewer's viewer would show one value and
 * the sandbox obey the other. Only what we act on is looked at; what we merely keep may say what it likes.
 */
function repeatedField(object: Node | undefined, prefix = ''): string | undefined {
  const fields = actedOn.get(prefix) ?? null
  const seen = new Set<string>()
  for (const { children = [] } of object?.type === 'object' ? (object.children ?? []) : []) {
    const key = String(children[0]?.value)
    const path = `${prefix}${key}`
    if (seen.has(key) && (fields === null || Object.hasOwn(fields, key))) return path
    seen.add(key)
    const inner = actedOn.has(`${path}.`) ? repeatedField(children[1], `${path}.`) : undefined
    if (inner !== undefined) return inner
  }
  return undefined
}

/** How deep brackets are nested, strings aside. Counted before anything is parsed: parsers go down by recursion. */
function depthOf(text: string): number {
  let depth = 0
  let deepest = 0
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[{\]}]/gs)) {
    if (token === '[' || token === '{') deepest = Math.max(deepest, ++depth)
    else if (token === ']' || token === '}') depth--
  }
  return deepest
}

/** Reads a spec from the caller's text. The text itself stays the record; this is what drivers act on. */
export function parseSandboxSpec(text: string): SandboxSpec {
  if (new TextEncoder().encode(text).length > maximumSpecBytes) throw tooLarge()
  // Such a text has no bytes of its own: stored, it would be another one.
  if (!text.isWellFormed()) {
    throw specError('not_text', 'it holds half a character (a lone surrogate)', 'Give whole characters.')
  }
  // Deeper than anybody means; whoever reads the record later must not run out of stack.
  if (depthOf(text) > maximumSpecDepth) {
    throw specError('too_deep', `nested deeper than ${maximumSpecDepth} levels`, 'Nest it less.')
  }
  const parsed = sandboxSpecSchema.safeParse(parseJson(text))
  if (!parsed.success) {
    const why = parsed.error.issues.map(issueText).join('; ')
    const hint = 'SandboxSpec fields and their values are listed in docs/sandbox-spec.md.'
    throw specError('invalid', why, hint, parsed.error.issues)
  }
  const repeated = repeatedField(readTree(text))
  if (repeated !== undefined) {
    throw specError('repeated_field', `${repeated} is given twice`, 'Give each field once.')
  }
  const spec = parsed.data
  if (spec.access_mode !== undefined && spec.boundary !== undefined) {
    if (accessModeOfBoundary[spec.boundary] !== spec.access_mode) {
      throw contradiction(
        `access_mode "${spec.access_mode}" and boundary "${spec.boundary}" say different things`,
      )
    }
  }
  const level = requestedLevel(spec)
  if (spec.isolation !== undefined && spec.isolation !== isolationOfLevel(level ?? 0)) {
    throw contradiction(`level ${spec.level} and isolation "${spec.isolation}" say different things`)
  }
  return level === undefined ? spec : { ...spec, isolation: isolationOfLevel(level) }
}

/** The level a spec asks for, in either vocabulary, if it asks for one. */
export function requestedLevel(spec: SandboxSpec | null): SandboxLevel | undefined {
  if (spec?.level !== undefined) return parseLevel(String(spec.level))
  return spec?.isolation === undefined ? undefined : levelOfIsolation(spec.isolation)
}

/** The boundary a spec asks for, if it asks for one. */
export function requestedBoundary(spec: SandboxSpec | null): BoundaryLevel | undefined {
  if (spec?.boundary !== undefined) return spec.boundary
  return spec?.access_mode === undefined ? undefined : boundaryOfAccessMode[spec.access_mode]
}
