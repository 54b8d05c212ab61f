import { boundaryLevels, boundaryRank, type BoundaryLevel, type Phase } from '../../shared/boundary.ts'
import type { EffectiveConfig, ResolvedLevel } from '../../shared/config.ts'
import { someHostCovers } from '../../shared/hosts.ts'
import type { Contract, ContractOutputs, NetworkPolicy } from '../base/contract.ts'
import { narrowerBoundary, narrowTools, unique } from './config/narrow.ts'
import { opensHosts } from './maximum.ts'
import { pinsWithin } from './pins.ts'
import { writableOf } from './scope.ts'
import { nothingTaken, type Taken } from './taken.ts'

/** What a running agent may do at a boundary. */
export type Capabilities = {
  readonly level: BoundaryLevel
  readonly files: {
    /** `workspace`: every root of the dispatch, through its changeset. `listed`: of that only what is `writable`. */
    readonly write: 'none' | 'listed' | 'workspace'
    /** Relative to the first root; at `none`, too, these can be written. */
    readonly writable: readonly string[]
    readonly hide: readonly string[]
  }
  readonly network: {
    /** `named`: what the contract names and what was approved. `open`: any public host. */
    readonly reach: 'none' | 'named' | 'open'
    readonly hosts: readonly string[]
    readonly deniedHosts: readonly string[]
  }
  readonly tools: ResolvedLevel['tools']
  readonly commands: ResolvedLevel['commands']
}

function reachOf(level: BoundaryLevel, hosts: readonly string[] | null): Capabilities['network']['reach'] {
  if (level === 'full') return hosts === null ? 'open' : 'named'
  if (level === 'network') return 'named'
  return hosts === null || hosts.length === 0 ? 'none' : 'named'
}

export function capabilitiesOf(level: BoundaryLevel, config: EffectiveConfig): Capabilities {
  const resolved = config.sandboxLevels[level]
  const writable = writableOf(config.sandboxLevels, level)
  const levels = boundaryLevels.map((each) => config.sandboxLevels[each])
  // What a level keeps from an agent every narrower one does, too: a repository that nobody trusts may say where an agent
  // begins, and must not show it by that what the user hid further up. (escape: lifted-by-lowering)
  const upwards = levels.slice(boundaryRank(level))
  return {
    level,
    files: {
      write: level === 'readonly' ? 'none' : writable === null ? 'workspace' : 'listed',
      writable: writable ?? [],
      hide: unique(upwards.flatMap(({ hide }) => hide)),
    },
    network: {
      reach: reachOf(level, resolved.hosts),
      hosts: resolved.hosts ?? [],
      // At any level: escalating must not lift what nobody looked at, either.
      deniedHosts: unique(levels.flatMap(({ deniedHosts }) => deniedHosts)),
    },
    tools: upwards.map(({ tools }) => tools).reduce(narrowTools),
    commands: upwards.map(({ commands }) => commands).reduce(narrowTools),
  }
}

/** The boundary a phase starts with; no phase is a build without the name. */
export const usualBoundary = (phase: Phase | null, config: EffectiveConfig): BoundaryLevel =>
  phase === null ? 'readwrite' : config.sandboxBoundaries[phase]

/** The level of files that a phase gives, or the one beyond it at which the outputs that were named are reached. */
export const reachingOutputs = (
  files: BoundaryLevel,
  { declared, mode, cut }: Pick<ContractOutputs, 'declared' | 'mode' | 'cut'>,
): BoundaryLevel => (files === 'readwrite' && declared && mode !== 'none' && cut !== true ? 'network' : files)

/**
 * What the broker lets through at a boundary. `granted` are hosts someone approved for this dispatch: they
 * hold at the boundary they were approved for, which the caller knows. `grantedOnly`: of the level's and the
 * contract's own hosts nobody said a word. What was taken back goes in spite of all that, and so does what the config's
 * maximum leaves no room for, whatever is on record: below `network` only the card's hosts stay. (escape: host-below-maximum)
 */
export function networkAt(
  contract: Contract,
  recorded: BoundaryLevel,
  granted: readonly string[],
  config: EffectiveConfig,
  grantedOnly = false,
  { taken, returned }: Taken = nothingTaken,
): NetworkPolicy {
  const { outputs } = contract
  const level = narrowerBoundary(recorded, config.sandboxMaximumBoundary)
  const { network } = capabilitiesOf(level, config)
  const reaches = boundaryRank(level) >= boundaryRank('network') && !grantedOnly
  const own = grantedOnly ? capabilitiesOf('readwrite', config).network : network
  const deny = unique([...outputs.deny, ...capabilitiesOf(recorded, config).network.deniedHosts])
  const { readOnly } = outputs
  const closed = outputs.declared && outputs.mode === 'none'
  const open =
    (reaches && !closed && (outputs.declared ? outputs.mode === 'open' : network.reach === 'open')) ||
    (outputs.openAlways === true && opensHosts(config.sandboxMaximumBoundary))
  const { always, ofCard = always } = outputs
  const allow = opensHosts(config.sandboxMaximumBoundary)
    ? // Granted ones last: what the first are given at the start, listeners, is not taken from them later.
      unique([...always, ...(reaches ? outputs.allow : []), ...(closed ? [] : own.hosts), ...granted])
    : always.filter((host) => someHostCovers(ofCard, host))
  const pinsHold =
    (reaches && !closed && outputs.led !== true) ||
    (outputs.pinsAlways === true && opensHosts(config.sandboxMaximumBoundary))
  const pins = open || pinsHold ? outputs.pins : pinsWithin(outputs.pins, allow)
  const waiting = outputs.allow.filter((host) => !someHostCovers(allow, host))
  const waits = !reaches && !open && (outputs.mode === 'open' || waiting.length > 0)
  const gate = waits ? { gate: { level, hosts: outputs.mode === 'open' ? null : waiting } } : {}
  const rest = { deny, readOnly, taken, returned, ...gate }
  const isEmptyList = reaches && outputs.declared && outputs.mode === 'restricted'
  if (!open && allow.length + Object.keys(pins).length === 0 && !isEmptyList)
    return { mode: 'none', allow: [], pins: {}, ...rest }
  return { mode: open ? 'open' : 'restricted', allow, pins, ...rest }
}

/** Whether a level is one for writing. What of the workspace can be written at it is a matter of `scopeAt`. */
export const filesAt = (level: BoundaryLevel): 'ro' | 'rw' => (level === 'readonly' ? 'ro' : 'rw')
