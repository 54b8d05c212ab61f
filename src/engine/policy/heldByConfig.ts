import { boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import type { EffectiveConfig } from '../../shared/config.ts'
import type { Contract } from '../base/contract.ts'
import type { EscalationState } from '../base/escalation.ts'
import { reachingOutputs, usualBoundary } from './capabilities.ts'
import { narrowerBoundary } from './config/narrow.ts'
import { atMost, heldByMaximum } from './maximum.ts'
import { current } from './step.ts'

type Records = Pick<EscalationState, 'start' | 'grants' | 'requests'>

/** The boundary that the config, as it is now, gives by itself; null: who started it named one. */
export function givenByConfig(
  { byPhase, phase, outputs }: Pick<Contract, 'byPhase' | 'phase' | 'outputs'>,
  config: EffectiveConfig,
): BoundaryLevel | null {
  return byPhase === true ? reachingOutputs(usualBoundary(phase, config), outputs) : null
}

const wider = (a: BoundaryLevel, b: BoundaryLevel): BoundaryLevel =>
  boundaryRank(a) > boundaryRank(b) ? a : b

/** The widest level that a yes on record gave and no narrowing took since. One to a host at a level it has gives the host. */
function approvedLevel({ grants, requests }: Records): BoundaryLevel {
  const known = new Map(requests.map((request) => [request.id, request]))
  let [before, now]: [BoundaryLevel, BoundaryLevel] = ['readonly', 'readonly']
  for (const { from, to, way, request } of grants) {
    const isRaised = from !== null && boundaryRank(to) > boundaryRank(from)
    const given = (request ?? '')
      .split(',')
      .flatMap((id) => known.get(id) ?? [])
      .filter(({ status, hosts }) => status === 'approved' && (isRaised || hosts.length === 0))
    const last = now
    const kept = narrowerBoundary(way === 'undone' ? before : now, to)
    now = given.map((wish) => narrowerBoundary(wish.to, to)).reduce(wider, kept)
    before = last
  }
  return now
}

/** What a config that changed has to take from who runs, and why. */
type Withdrawal = { readonly to: BoundaryLevel; readonly keepsHosts: boolean; readonly why: string }

/**
 * What of a boundary the config no longer allows; null: it may stay. A level that came from the config alone goes with what
 * it came from, be that a file or the trust in it. What somebody approved stays, up to the maximum. (escape: level-outlives-trust)
 */
export function heldByConfig(
  state: Records,
  { sandboxMaximumBoundary: maximum }: Pick<EffectiveConfig, 'sandboxMaximumBoundary'>,
  given: BoundaryLevel | null,
): Withdrawal | null {
  const now = current(state)
  const byMaximum = heldByMaximum(now, maximum)
  const allowed = given === null ? now.level : wider(given, approvedLevel(state))
  const isOver = boundaryRank(now.level) > boundaryRank(allowed)
  if (byMaximum === null && !isOver) return null
  const why = [
    ...(byMaximum === null ? [] : [`the config now ${atMost(maximum, now)}`]),
    ...(isOver ? [`the config that is trusted now gives its phase ${given}, and nobody approved more`] : []),
  ]
  return {
    to: narrowerBoundary(byMaximum ?? now.level, allowed),
    keepsHosts: byMaximum === null,
    why: why.join('; '),
  }
}
