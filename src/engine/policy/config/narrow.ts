import { boundaryLevels, boundaryRank, phases, type BoundaryLevel } from '../../../shared/boundary.ts'
import type { EffectiveConfig, ResolvedLevel, SelectionRule } from '../../../shared/config.ts'
import { someHostCovers } from '../../../shared/hosts.ts'
import { commonPaths, writableOf } from '../scope.ts'

export const narrowerBoundary = (a: BoundaryLevel, b: BoundaryLevel): BoundaryLevel =>
  boundaryRank(a) <= boundaryRank(b) ? a : b

export const unique = <T>(values: readonly T[]): T[] => [...new Set(values)]

/** Hosts both lists stand for. */
export function commonHosts(a: readonly string[], b: readonly string[]): string[] {
  return unique([
    ...a.filter((host) => someHostCovers(b, host)),
    ...b.filter((host) => someHostCovers(a, host)),
  ])
}

export function commonNames(a: readonly string[] | null, b: readonly string[] | null): string[] | null {
  if (a === null) return b === null ? null : [...b]
  return b === null ? [...a] : a.filter((name) => b.includes(name))
}

type Tools = ResolvedLevel['tools']
export const narrowTools = (a: Tools, b: Tools): Tools => ({
  allow: commonNames(a.allow, b.allow),
  deny: unique([...a.deny, ...b.deny]),
})

/** No list means open at `full` and nothing elsewhere. */
function narrowHosts(level: BoundaryLevel, a: string[] | null, b: string[] | null): string[] | null {
  if (a !== null && b !== null) return commonHosts(a, b)
  return level === 'full' ? (a ?? b) : null
}

function narrowLevel(
  level: BoundaryLevel,
  a: ResolvedLevel,
  b: ResolvedLevel,
): Omit<ResolvedLevel, 'writable'> {
  return {
    hosts: narrowHosts(level, a.hosts, b.hosts),
    deniedHosts: unique([...a.deniedHosts, ...b.deniedHosts]),
    hide: unique([...a.hide, ...b.hide]),
    tools: narrowTools(a.tools, b.tools),
    commands: narrowTools(a.commands, b.commands),
  }
}

/** Of what each has at that level in the end: a level without a list may have that of the level below. */
function narrowWritable(
  level: BoundaryLevel,
  a: EffectiveConfig['sandboxLevels'],
  b: EffectiveConfig['sandboxLevels'],
): string[] | null {
  // Where neither has a list, that of the level below holds, which is narrowed already.
  if (a[level].writable === null && b[level].writable === null) return null
  const commonAt = (each: BoundaryLevel) => commonPaths(writableOf(a, each), writableOf(b, each))
  const common = commonAt(level)
  if (common !== null) return [...common]
  // Said aloud, where it would be taken for the list below it.
  const below = boundaryLevels.slice(boundaryRank('readwrite'), boundaryRank(level))
  return below.some((each) => commonAt(each) !== null) ? ['.'] : null
}

const ruleText = (rule: SelectionRule): string =>
  JSON.stringify([rule.agent, rule.role, rule.level, rule.minimum])

/** A rule both sides have stays; one that only one side has keeps its minimum, which can only raise. */
function narrowSelection(a: readonly SelectionRule[], b: readonly SelectionRule[]): SelectionRule[] {
  const inB = new Set(b.map(ruleText))
  const shared = a.filter((rule) => inB.has(ruleText(rule)))
  const sharedTexts = new Set(shared.map(ruleText))
  const minimums = [...a, ...b]
    .filter((rule) => !sharedTexts.has(ruleText(rule)) && rule.minimum !== undefined)
    .map((rule): SelectionRule => ({ agent: rule.agent, role: rule.role, minimum: rule.minimum }))
  return [...shared, ...minimums]
}

/** Zero means never, so any time is narrower. */
function narrowTimeout(a: number, b: number): number {
  if (a === 0 || b === 0) return Math.max(a, b)
  return Math.min(a, b)
}

/** The values both configs agree to allow. Approvals are joined: each carries the folders it covers itself. */
export function narrowConfig(a: EffectiveConfig, b: EffectiveConfig): EffectiveConfig {
  const approvals = [...a.sandboxApprovedEscalations]
  for (const approval of b.sandboxApprovedEscalations) {
    if (!approvals.some((known) => known.id === approval.id && known.file === approval.file))
      approvals.push(approval)
  }
  const values = {
    sandboxEnabled: a.sandboxEnabled || b.sandboxEnabled,
    sandboxBoundaries: Object.fromEntries(
      phases.map((phase) => [
        phase,
        narrowerBoundary(a.sandboxBoundaries[phase], b.sandboxBoundaries[phase]),
      ]),
    ) as EffectiveConfig['sandboxBoundaries'],
    sandboxPhaseFiles: Object.fromEntries(
      phases.map((phase) => [
        phase,
        commonNames(a.sandboxPhaseFiles[phase], b.sandboxPhaseFiles[phase]) ?? [],
      ]),
    ) as EffectiveConfig['sandboxPhaseFiles'],
    sandboxLevels: Object.fromEntries(
      boundaryLevels.map((level) => [
        level,
        {
          ...narrowLevel(level, a.sandboxLevels[level], b.sandboxLevels[level]),
          writable: narrowWritable(level, a.sandboxLevels, b.sandboxLevels),
        },
      ]),
    ) as EffectiveConfig['sandboxLevels'],
    sandboxMaximumBoundary: narrowerBoundary(a.sandboxMaximumBoundary, b.sandboxMaximumBoundary),
    sandboxEscalationPolicy:
      a.sandboxEscalationPolicy === 'prompt' || b.sandboxEscalationPolicy === 'prompt'
        ? ('prompt' as const)
        : ('auto' as const),
    sandboxEscalationWait: Math.min(a.sandboxEscalationWait, b.sandboxEscalationWait),
    sandboxAutoEscalation: a.sandboxAutoEscalation,
    sandboxApprovedEscalations: approvals,
    sandboxCredentials: a.sandboxCredentials,
    sandboxProxyResolves: a.sandboxProxyResolves && b.sandboxProxyResolves,
    sandboxSelection: narrowSelection(a.sandboxSelection, b.sandboxSelection),
    agentForbiddenTools: unique([...a.agentForbiddenTools, ...b.agentForbiddenTools]),
    agentInactivityTimeout: narrowTimeout(a.agentInactivityTimeout, b.agentInactivityTimeout),
    changesetProtectedPaths: unique([...a.changesetProtectedPaths, ...b.changesetProtectedPaths]),
  }
  return {
    ...values,
    provenance: provenanceOf(values, a, b),
    heldBack: unique([...a.heldBack, ...b.heldBack]),
    warnings: unique([...a.warnings, ...b.warnings]),
    projects: unique([...a.projects, ...b.projects]),
  }
}

/** The value a dotted key stands for. */
export function valueAt(config: object, key: string): unknown {
  let value: unknown = config
  for (const step of key.split('.')) value = (value as Record<string, unknown> | null | undefined)?.[step]
  return value
}

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)

/** The key whose value holds under another: a level without a list of its own may have that of the level below. */
function sourceOf(key: string, { sandboxLevels: levels }: EffectiveConfig): string {
  const level = boundaryLevels.find((each) => key === `sandboxLevels.${each}.writable`)
  if (level === undefined || level === 'readonly') return key
  const below = boundaryLevels.slice(boundaryRank('readwrite'), boundaryRank(level) + 1)
  return `sandboxLevels.${below.findLast((each) => levels[each].writable !== null) ?? level}.writable`
}

/** A value that is one side's as it stands came from there; a joined one came from both. */
function provenanceOf(values: object, a: EffectiveConfig, b: EffectiveConfig): EffectiveConfig['provenance'] {
  const provenance: EffectiveConfig['provenance'] = {}
  for (const key of unique([...Object.keys(a.provenance), ...Object.keys(b.provenance)])) {
    const value = valueAt(values, key)
    if (same(value, valueAt(a, key))) provenance[key] = a.provenance[key] ?? []
    else if (same(value, valueAt(b, key))) provenance[key] = b.provenance[key] ?? []
    else {
      const fromA = a.provenance[sourceOf(key, a)] ?? []
      const fromB = b.provenance[sourceOf(key, b)] ?? []
      provenance[key] = [
        ...fromA,
        ...fromB.filter(
          (source) => !fromA.some((other) => other.file === source.file && other.line === source.line),
        ),
      ]
    }
  }
  return provenance
}
