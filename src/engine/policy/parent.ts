import { boundaryLevels, boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import type { AgentCard } from '../../shared/card.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { someHostCovers } from '../../shared/hosts.ts'
import { levelNames, type SandboxLevel } from '../../shared/level.ts'
import type { Limits, SandboxSpec } from '../../shared/spec.ts'
import type { Contract, ContractOutputs, WritableScopes } from '../base/contract.ts'
import { commonHosts, commonNames, narrowerBoundary, unique } from './config/narrow.ts'
import { commonPaths, isInside, scopeAt } from './scope.ts'

function refuse(code: string, message: string, hint: string): OrangeryError {
  return new OrangeryError(`policy.${code}`, message, { kind: 'refused', hint })
}

const modeRank = { none: 0, restricted: 1, open: 2 } as const

/** Hosts a parent can reach itself, at best. Null: any public one. */
function parentHosts(parent: Contract): readonly string[] | null {
  return parent.outputs.mode === 'open' ? null : [...parent.outputs.always, ...parent.outputs.allow]
}

/** Hosts it can reach now: those its contract names wait behind the boundary. (escape: child-always-hosts) */
function reachableNow(parent: Contract): readonly string[] | null {
  const { always, openAlways } = parent.outputs
  const isBehind = boundaryRank(parent.boundary) < boundaryRank('network') && openAlways !== true
  return isBehind ? always : parentHosts(parent)
}

function outputsUnder(child: Contract, parent: Contract): ContractOutputs {
  const { outputs } = child
  if (Object.keys(outputs.pins).length > 0) {
    throw refuse(
      'parent_pins',
      'outputs.pins: a child cannot pin hosts to addresses',
      'Only the user can pin a host.',
    )
  }
  const hosts = parentHosts(parent)
  const now = reachableNow(parent)
  if (modeRank[outputs.mode] > modeRank[parent.outputs.mode] && outputs.declared) {
    throw refuse(
      'parent_outputs',
      `outputs ${outputs.mode}: the parent has ${parent.outputs.mode}`,
      'Ask for what the parent itself may reach, or let a person widen the parent first.',
    )
  }
  const beyond = outputs.allow.find((host) => hosts !== null && !someHostCovers(hosts, host))
  if (beyond !== undefined) {
    throw refuse('parent_host', `${beyond}: the parent may not reach it itself`, 'Ask for fewer hosts.')
  }
  // Where the parent is led elsewhere, the child is too: else it would reach the host its parent cannot.
  // (escape: child-pinned-host)
  const { pins } = parent.outputs
  const isParentClosed =
    parent.outputs.declared && parent.outputs.mode === 'none' && parent.outputs.cut !== true
  return {
    ...outputs,
    ...(outputs.declared || isParentClosed ? {} : { cut: true }),
    // Also where it may reach nothing yet: what it is given later it is given as its parent has it.
    pins,
    ...(Object.keys(pins).length > 0 ? { led: true } : {}),
    deny: unique([...outputs.deny, ...parent.outputs.deny]),
    openAlways: outputs.openAlways === true && now === null,
    always: now === null ? outputs.always : commonHosts(outputs.always, now),
    readOnly: outputs.readOnly || parent.outputs.readOnly,
    declared: true,
  }
}

function smaller(a: number | undefined, b: number | undefined): number | undefined {
  if (a === undefined) return b
  return b === undefined ? a : Math.min(a, b)
}

function limitsUnder(child: Limits, parent: Limits): Limits {
  const limits: Limits = { ...child }
  for (const name of limitNames) {
    const value = smaller(child[name], parent[name])
    if (value !== undefined) limits[name] = value
  }
  return limits
}

const limitNames = ['cpus', 'memory_mb', 'pids', 'disk_mb', 'timeout_s'] as const

/** Cutting a wish in silence would leave a record of something that never held: more than the parent has is refused. */
function refuseMore(spec: SandboxSpec, parent: Contract): void {
  const more = (field: string, why: string) =>
    refuse(
      'parent_more',
      `${field}: ${why}`,
      "Ask for no more than the parent has, or leave the field out: then the parent's holds.",
    )
  const amounts: (readonly [string, number | undefined, number | null | undefined])[] = [
    ['max_turns', spec.max_turns, parent.maxTurns],
    ['max_commands', spec.max_commands, parent.maxCommands],
    ...limitNames.map((name) => [`limits.${name}`, spec.limits?.[name], parent.limits[name]] as const),
  ]
  for (const [field, wish, most] of amounts) {
    if (wish !== undefined && most != null && wish > most)
      throw more(field, `${wish} is more than the parent's ${most}`)
  }
  const { toolsAllowed, toolsDenied } = parent
  const tool = spec.tools_allowed?.find(
    (name) => toolsDenied.includes(name) || toolsAllowed?.includes(name) === false,
  )
  if (tool !== undefined) throw more('tools_allowed', `the parent may not use ${tool} itself`)
  if (spec.on_limit === 'record' && parent.onLimit === 'stop')
    throw more('on_limit', 'the parent is stopped at its limits')
  if (spec.outputs?.read_only === false && parent.outputs.readOnly)
    throw more('outputs.read_only', 'the parent may only read')
}

const smallerOrNull = (a: number | null, b: number | null): number | null =>
  a === null ? b : b === null ? a : Math.min(a, b)

/** What it may write at each level: of its own what its parent may write there. A level its parent has not it never gets. */
function writableUnder(child: Contract, parent: Contract): WritableScopes {
  const under = (level: BoundaryLevel): readonly string[] | null => {
    const allowed = scopeAt(parent, level === 'readonly' ? parent.boundary : level)
    if (allowed === null) return scopeAt(child, level)
    const common = commonPaths(scopeAt(child, level) ?? child.roots, allowed)
    return common !== null && child.roots.every((root) => common.includes(root)) ? null : common
  }
  const entries = boundaryLevels.slice(1).flatMap((level) => {
    const paths = under(level)
    return paths === null ? [] : [[level, paths] as const]
  })
  return {
    writableFiles: under('readonly') ?? [],
    ...(entries.length === 0 ? {} : { writableAt: Object.fromEntries(entries) }),
  }
}

/**
 * A child has at most its parent's rights. What it asked for beyond them is refused; what nobody said is cut to
 * them. Never level 0, never `none`, never a pin, whatever the parent has.
 */
export function underParent(
  child: Contract,
  parent: Contract,
  spec: SandboxSpec | null,
  card: AgentCard,
  asked: BoundaryLevel | undefined,
): Contract {
  const floor = Math.max(1, parent.level) as SandboxLevel
  if (spec?.isolation !== undefined && child.level < floor) {
    throw refuse(
      'parent_level',
      `level ${child.level} (${levelNames[child.level]}) for ${card.id}: a child of this dispatch runs at level ${floor} or above`,
      'Leave the isolation out.',
    )
  }
  if (child.strategy === 'none') {
    throw refuse(
      'parent_direct',
      'changeset none: a child never writes real files',
      'Leave the changeset out.',
    )
  }
  if (asked !== undefined && boundaryRank(asked) > boundaryRank(parent.boundary)) {
    throw refuse(
      'parent_boundary',
      `boundary ${asked}: the parent has ${parent.boundary}`,
      'Ask for less, or let a person widen the parent first.',
    )
  }
  const outside = child.roots.find((root) => !parent.roots.some((own) => isInside(root, own)))
  if (outside !== undefined) {
    throw refuse('parent_root', `${outside}: outside the parent's roots`, 'Name folders inside them.')
  }
  if (spec !== null) refuseMore(spec, parent)
  return {
    ...child,
    level: Math.max(child.level, floor) as SandboxLevel,
    boundary: narrowerBoundary(child.boundary, parent.boundary),
    outputs: outputsUnder(child, parent),
    hide: unique([...child.hide, ...parent.hide]),
    ...writableUnder(child, parent),
    limits: limitsUnder(child.limits, parent.limits),
    onLimit: parent.onLimit === 'stop' ? 'stop' : child.onLimit,
    toolsAllowed: commonNames(child.toolsAllowed, parent.toolsAllowed),
    toolsDenied: unique([...child.toolsDenied, ...parent.toolsDenied]),
    maxTurns: smallerOrNull(child.maxTurns, parent.maxTurns),
    maxCommands: smallerOrNull(child.maxCommands, parent.maxCommands),
  }
}
