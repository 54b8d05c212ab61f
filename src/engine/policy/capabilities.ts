import { boundaryLevels, boundaryRank, type BoundaryLevel, type Phase } from '../../shared/boundary.ts'
import type { EffectiveConfig, ResolvedLevel } from '../../shared/config.ts'
import { someHostCovers } from '../../shared/hosts.ts'
import type { Contract, NetworkPolicy } from '../base/contract.ts'
import { narrowerBoundary, unique } from './config/narrow.ts'
import { opensHosts } from './maximum.ts'
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
  // A denial at a lower level holds above it too: escalating must not lift what nobody looked at.
  const below = boundaryLevels.slice(0, boundaryRank(level) + 1).map((lower) => config.sandboxLevels[lower])
  return {
    level,
    files: {
      write: level === 'readonly' ? 'none' : writable === null ? 'workspace' : 'listed',
      writable: writable ?? [],
      hide: resolved.hide,
    },
    network: {
      reach: reachOf(level, resolved.hosts),
      hosts: resolved.hosts ?? [],
      deniedHosts: unique(below.flatMap((lower) => lower.deniedHosts)),
    },
    tools: resolved.tools,
    commands: resolved.commands,
  }
}

/** The boundary a phase starts with; no phase is a build without the name. */
export const usualBoundary = (phase: Phase | null, config: EffectiveConfig): BoundaryLevel =>
  phase === null ? 'readwrite' : config.sandboxBoundaries[phase]

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
  const open = reaches && !closed && (outputs.declared ? outputs.mode === 'open' : network.reach === 'open')
  const { always, ofCard = always } = outputs
  const allow = opensHosts(config.sandboxMaximumBoundary)
    ? // Granted ones last: what the first are given at the start, listeners, is not taken from them later.
      unique([...always, ...(reaches ? outputs.allow : []), ...(closed ? [] : own.hosts), ...granted])
    : always.filter((host) => someHostCovers(ofCard, host))
  const pins = Object.fromEntries(
    Object.entries(outputs.pins).filter(([host]) => reaches || someHostCovers(allow, host)),
  )
  const rest = { deny, readOnly, taken, returned }
  const isEmptyList = reaches && outputs.declared && outputs.mode === 'restricted'
  if (!open && allow.length === 0 && !isEmptyList) return { mode: 'none', allow: [], pins: {}, ...rest }
  return { mode: open ? 'open' : 'restricted', allow, pins, ...rest }
}

/** Whether a level is one for writing. What of the workspace can be written at it is a matter of `scopeAt`. */
export const filesAt = (level: BoundaryLevel): 'ro' | 'rw' => (level === 'readonly' ? 'ro' : 'rw')
