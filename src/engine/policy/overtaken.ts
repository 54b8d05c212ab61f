import { boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { hostsOverlap, someHostCovers } from '../../shared/hosts.ts'
import type { AnswerWay, BoundaryRequest } from '../../shared/escalation.ts'
import type { EscalationState } from '../base/escalation.ts'
import { answered, replaceRequest } from './step.ts'

/** Whether a yes to it opens more at `now` than it did at `from`: what was taken in between would come back with it. */
const opensMore = ({ to }: BoundaryRequest, from: BoundaryLevel, now: BoundaryLevel): boolean =>
  boundaryRank(now) < boundaryRank(from) && boundaryRank(now) < boundaryRank(to)

/** A yes speaks of what its giver was shown. Whoever narrowed meanwhile has the last word. (escape: stale-yes) */
export function refuseStale(
  requests: readonly BoundaryRequest[],
  shown: BoundaryLevel,
  now: BoundaryLevel,
): void {
  const stale = requests.find((request) => opensMore(request, shown, now))
  if (stale === undefined) return
  throw new OrangeryError(
    'boundary.stale_yes',
    `request ${stale.id}: a yes would open more than was shown, since it is at ${now} by now, not at ${shown}`,
    { kind: 'busy', hint: 'Look again at what it would open, and answer that.' },
  )
}

type Narrowed = {
  readonly from: BoundaryLevel
  readonly now: BoundaryLevel
  /** Hosts that went, whatever became of the level. */
  readonly hosts: readonly string[]
}

/**
 * Closes what was asked before a narrowing that a yes to it would undo: only what is asked from here on says what it opens
 * from here. Who waits is told, and asks again for what it still needs.
 */
export function closeOvertaken(
  state: EscalationState,
  { from, now, hosts }: Narrowed,
  { at, by, way }: { readonly at: Date; readonly by: string; readonly way: AnswerWay },
): { readonly state: EscalationState; readonly closed: readonly BoundaryRequest[] } {
  const again = 'meanwhile: ask again for what is still needed'
  const closed = state.requests.flatMap((request) => {
    if (request.status !== 'open' || request.source === 'config') return []
    // Who says yes to the very host that was taken back means it; one that stands for more is not named by it.
    const bringsBack = (asked: string, host: string) =>
      hostsOverlap(asked, host) && !someHostCovers([host], asked)
    const gone = hosts.find((host) => request.hosts.some((asked) => bringsBack(asked, host)))
    const isNarrowed = opensMore(request, from, now)
    if (gone === undefined && !isNarrowed) return []
    const message = isNarrowed ? `it was narrowed to ${now} ${again}` : `${gone} was taken back ${again}`
    return [answered({ ...request, status: 'closed' }, at, way, by, message)]
  })
  return { state: closed.reduce(replaceRequest, state), closed }
}
