import { boundaryLevels, boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import type { SavedApproval } from '../../shared/config.ts'
import { OrangeryError } from '../../shared/errors.ts'
import {
  approvalScopes,
  type AnswerWay,
  type BoundaryGrant,
  type BoundaryRequest,
} from '../../shared/escalation.ts'
import type { EventBody } from '../../shared/events.ts'
import { opensEveryHost } from '../../shared/opens.ts'
import type { EscalationState } from '../base/escalation.ts'
import { unique } from './config/narrow.ts'
import { givingAgain, nothingTaken, type Taken } from './taken.ts'

export type EscalationEffect =
  | {
      readonly kind: 'apply'
      readonly to: BoundaryLevel
      /** Every host granted from now on, not only the new ones. */
      readonly hosts: readonly string[]
      readonly by: string
      readonly why: string
    }
  | { readonly kind: 'tell'; readonly event: EventBody }
  | {
      readonly kind: 'save'
      readonly scope: 'project' | 'user'
      readonly approvals: readonly SavedApproval[]
      readonly by: string
    }

export type Step<T> = {
  readonly state: EscalationState
  readonly effects: readonly EscalationEffect[]
  readonly result: T
}

/** A level, the hosts that were granted, and those that were taken back. */
export type Held = Taken & { readonly level: BoundaryLevel; readonly hosts: readonly string[] }

/** What holds now. */
export function current(state: Pick<EscalationState, 'start' | 'grants'>): Held {
  const last = state.grants.at(-1)
  if (last === undefined) return { level: state.start, hosts: [], ...nothingTaken }
  const { to, hosts, taken, returned } = last
  return { level: to, hosts, taken, returned }
}

/**
 * Whether only the granted hosts are open, although the level would open the contract's own too. Who took those back,
 * or never opened them, and then said yes to one host, said yes to that one: the rest comes with a yes that names no
 * host. (escape: one-host-for-all)
 */
export function opensGrantedOnly({
  grants,
  requests,
}: Pick<EscalationState, 'grants' | 'requests'>): boolean {
  const network = boundaryRank('network')
  const known = new Map(requests.map((request) => [request.id, request]))
  let [before, now] = [false, false]
  for (const { from, to, way, request } of grants) {
    const last = now
    const isOpening = (request ?? '')
      .split(',')
      .flatMap((id) => known.get(id) ?? [])
      .some((wish) => opensEveryHost(from, wish) || (wish.to === 'network' && wish.hosts.length === 0))
    if (way === 'undone') now = now || before
    else if (boundaryRank(to) >= network && isOpening) now = false
    else if (from !== null && boundaryRank(to) >= network && boundaryRank(from) < network) now = true
    before = last
  }
  return now
}

/**
 * Whether it was narrowed below `network`, and nobody has opened that again as a whole: then what its contract opens over
 * read-only files is closed as well, although its level may have been as low before. (escape: open-below-narrowing)
 */
export function isShut(state: Pick<EscalationState, 'start' | 'grants' | 'requests'>): boolean {
  const network = boundaryRank('network')
  const wasNarrowed = state.grants.some(({ from, to, way, request }) => {
    const isDown = boundaryRank(to) < boundaryRank(from ?? to) && way !== 'undone' && request === null
    return boundaryRank(to) < network && (isDown || way === 'closed')
  })
  return wasNarrowed && (boundaryRank(current(state).level) < network || opensGrantedOnly(state))
}

/** Whether a person said yes to `full` itself while it ran, and it has not been narrowed since. */
export function opensEverything({ grants, requests }: Pick<EscalationState, 'grants' | 'requests'>): boolean {
  const known = new Map(requests.map((request) => [request.id, request]))
  let [before, now] = [false, false]
  for (const { from, to, way, request } of grants) {
    const last = now
    const wishes = (request ?? '').split(',').flatMap((id) => known.get(id) ?? [])
    if (way === 'undone') now = now && before
    else if (to !== 'full') now = false
    else if (isOfPerson(way) && wishes.some((wish) => opensEveryHost(from, wish))) now = true
    before = last
  }
  return now
}

const isOfPerson = (way: BoundaryGrant['way']): boolean =>
  (approvalScopes as readonly BoundaryGrant['way'][]).includes(way)

const widest = (levels: readonly BoundaryLevel[]): BoundaryLevel =>
  boundaryLevels[Math.max(...levels.map(boundaryRank))] as BoundaryLevel

export function replaceRequest(state: EscalationState, request: BoundaryRequest): EscalationState {
  return { ...state, requests: state.requests.map((known) => (known.id === request.id ? request : known)) }
}

/** Requests nobody answered in time are over; so are all of a dispatch that has ended. */
export function settle(state: EscalationState, at: Date): EscalationState {
  const requests = state.requests.map((request): BoundaryRequest => {
    if (request.status !== 'open') return request
    if (!state.running) return { ...request, status: 'closed' }
    return new Date(request.expires_at) <= at ? { ...request, status: 'expired' } : request
  })
  return { ...state, requests }
}

export function assertRunning(state: EscalationState): void {
  if (state.running) return
  throw new OrangeryError('boundary.not_running', `dispatch ${state.dispatch}: it is not running`, {
    kind: 'busy',
    hint: 'A boundary belongs to a running agent; give a new dispatch the boundary it needs.',
  })
}

export function answered(
  request: BoundaryRequest,
  at: Date,
  way: AnswerWay,
  by: string,
  message: string,
): BoundaryRequest {
  return { ...request, answer: { at: at.toISOString(), by, way, message } }
}

export function granted(
  state: EscalationState,
  requests: readonly BoundaryRequest[],
  at: Date,
  way: AnswerWay,
  by: string,
): Step<readonly BoundaryRequest[]> {
  const now = current(state)
  const to = widest([now.level, ...requests.map((request) => request.to)])
  const hosts = unique([...now.hosts, ...requests.flatMap((request) => request.hosts)])
  const { taken, returned } = givingAgain(
    now,
    requests.flatMap((request) => request.hosts),
  )
  const why = unique(requests.map((request) => request.why)).join('; ')
  const grant: BoundaryGrant = {
    at: at.toISOString(),
    from: now.level,
    to,
    hosts,
    taken: [...taken],
    returned: [...returned],
    by,
    why,
    way,
    request: requests.map((request) => request.id).join(','),
  }
  return {
    state: { ...state, grants: [...state.grants, grant] },
    effects: [{ kind: 'apply', to, hosts, by, why }],
    result: requests,
  }
}

export const eventOfDenial = (request: BoundaryRequest, by: string, why: string): EscalationEffect => ({
  kind: 'tell',
  event: { type: 'BoundaryDenied', request: request.id, by, why },
})
