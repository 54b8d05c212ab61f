import type { BoundaryLevel } from '../../shared/boundary.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { BoundaryRequest, RequestSource } from '../../shared/escalation.ts'
import type { EscalationState } from '../base/escalation.ts'
import { standingApproval } from './approvals.ts'
import type { EscalationContext } from './context.ts'
import { beyondAncestors } from './ancestors.ts'
import { forbids } from './forbidden.ts'
import { heldAlready, withHeld } from './held.ts'
import { normalised } from './normalised.ts'
import {
  answered,
  assertRunning,
  current,
  eventOfDenial,
  granted,
  replaceRequest,
  settle,
  type EscalationEffect,
  type Step,
} from './step.ts'

/** Changes below these only with thought: they are what keeps an agent from wearing a person down. */
export const escalationLimits = {
  requestLastsMs: 15 * 60_000,
  /** A denial answers the same question again for this long. */
  denialHoldsMs: 10 * 60_000,
  floodWindowMs: 60_000,
  floodRequests: 10,
  floodAnswered: 200,
  mostOpen: 25,
} as const

export type Asking = {
  readonly id: string
  readonly to: BoundaryLevel
  readonly hosts: readonly string[]
  readonly source: RequestSource
  readonly by: string
  readonly why: string
}

const sameWish = (
  a: Pick<BoundaryRequest, 'to' | 'hosts'>,
  b: Pick<BoundaryRequest, 'to' | 'hosts'>,
): boolean =>
  a.to === b.to &&
  a.hosts.length === b.hosts.length &&
  a.hosts.every((host, index) => host === b.hosts[index])

const standingWays: ReadonlySet<string> = new Set(['saved', 'task', 'auto'])

/** What an earlier yes answers wears nobody down: it counts for itself, and only the records set it an end. */
function assertNoFlood(state: EscalationState, asking: Asking, at: Date, isAnswered: boolean): void {
  if (asking.source === 'user') return
  const since = at.getTime() - escalationLimits.floodWindowMs
  const fresh = state.requests.filter(
    ({ source, created_at: created, answer }) =>
      source !== 'user' &&
      new Date(created).getTime() > since &&
      standingWays.has(answer?.way ?? '') === isAnswered,
  )
  if (isAnswered && fresh.length < escalationLimits.floodAnswered) return
  const open = state.requests.filter((request) => request.status === 'open')
  if (!isAnswered && fresh.length < escalationLimits.floodRequests && open.length < escalationLimits.mostOpen)
    return
  throw new OrangeryError('boundary.flood', `dispatch ${state.dispatch}: too many requests at once`, {
    kind: 'busy',
    hint: 'Wait for the answers to those that are open.',
  })
}

export const eventOfRequest = (request: BoundaryRequest): EscalationEffect => ({
  kind: 'tell',
  event: {
    type: 'BoundaryRequested',
    request: request.id,
    to: request.to,
    by: request.by,
    why: request.why,
    hosts: request.hosts,
  },
})
/** Request → saved approval → policy → left for a person. */
export function fileRequest(
  before: EscalationState,
  asking: Asking,
  context: EscalationContext,
): Step<BoundaryRequest> {
  assertRunning(before)
  const { at } = context
  const state = settle(before, at)
  const now = current(state)
  const wish: BoundaryRequest = {
    id: asking.id,
    dispatch: state.dispatch,
    to: asking.to,
    hosts: normalised(asking.hosts),
    source: asking.source,
    by: asking.by,
    why: asking.why,
    status: 'open',
    count: 1,
    created_at: at.toISOString(),
    last_at: at.toISOString(),
    expires_at: new Date(at.getTime() + escalationLimits.requestLastsMs).toISOString(),
    answer: null,
  }
  const forbidden = forbids(wish, now.level, context)
  const held = heldAlready(state, wish, context)
  if (held !== null) return { state, effects: [], result: held }
  // Of a host that was denied a person hears in any case, and may say yes once the parent has it itself.
  const beyond = wish.source === 'broker' ? null : beyondAncestors(state, wish, context.bounds)
  if (beyond !== null) throw beyond
  const isAllowed = forbidden === null
  const standing = isAllowed ? standingApproval(state, wish, context) : null
  const again = state.requests.find((known) => known.status === 'open' && sameWish(known, wish))
  // What waited while its parent lacked it need not wait for a yes that is there by now.
  if (again !== undefined && standing === null) return repeated(state, again, at, wish)
  if (asking.source !== 'user') {
    const since = at.getTime() - escalationLimits.denialHoldsMs
    const denied = state.requests.findLast(
      (known) =>
        known.status === 'denied' &&
        sameWish(known, wish) &&
        // What the config denied it allows by now.
        !(isAllowed && known.answer?.way === 'policy') &&
        new Date(known.answer?.at ?? 0).getTime() > since,
    )
    if (denied !== undefined) return repeated(state, denied, at, denied)
  }
  assertNoFlood(state, asking, at, standing !== null)
  // Whoever asked before and still waits hears the same answer.
  const asked = again === undefined ? wish : repeatOf(again, at, wish)
  const filed: EscalationState =
    again === undefined ? { ...state, requests: [...state.requests, wish] } : replaceRequest(state, asked)
  const told = again === undefined ? (request: BoundaryRequest) => [eventOfRequest(request)] : () => []
  if (!isAllowed) {
    const why = `The policy ${forbidden.says}.`
    const denied = answered({ ...asked, status: 'denied' }, at, 'policy', 'policy', why)
    return {
      state: replaceRequest(filed, denied),
      effects: [...told(denied), eventOfDenial(denied, 'policy', why)],
      result: denied,
    }
  }
  if (standing === null) return { state: filed, effects: told(asked), result: asked }
  const { way, by, message } = standing
  const approved = answered(
    { ...asked, to: standing.wish.to, hosts: standing.wish.hosts, status: 'approved' },
    at,
    way,
    by,
    message,
  )
  const given = granted(replaceRequest(filed, approved), [approved], at, way, by)
  const step = withHeld(given, context)
  return { ...step, effects: [...told(approved), ...step.effects], result: approved }
}

/** Answers open requests that an approval, saved meanwhile, now covers. */
export function approveStanding(
  before: EscalationState,
  context: EscalationContext,
): Step<readonly BoundaryRequest[]> {
  const settled = settle(before, context.at)
  let step: Step<readonly BoundaryRequest[]> = { state: settled, effects: [], result: [] }
  if (!settled.running) return step
  for (const { id } of settled.requests) {
    const request = step.state.requests.find((known) => known.id === id)
    if (request?.status !== 'open') continue
    if (forbids(request, current(step.state).level, context) !== null) continue
    const standing = standingApproval(step.state, request, context)
    if (standing === null) continue
    const { way, by, wish } = standing
    const what = `${wish.hosts.join(', ')} at ${wish.to} is granted`
    const message = wish.to === request.to ? standing.message : `${what}. ${standing.message}`.trim()
    // What is given may be less than what was asked for, which stays on record as it was asked.
    const approved = answered({ ...request, status: 'approved' }, context.at, way, by, message)
    const given = granted(replaceRequest(step.state, approved), [wish], context.at, way, by)
    const next = withHeld(given, context)
    // Each apply carries the whole, so the last one is enough.
    step = { state: next.state, effects: next.effects, result: [...step.result, approved] }
  }
  return step
}

const longestWhy = 600

/** Who asks for what a denial has asked for already has a reason that a person wants to read, and the other way round. */
function bothReasons(known: BoundaryRequest, again: BoundaryRequest): string {
  if (again.source === known.source || known.why.includes(again.why)) return known.why
  const both = `${known.why}; ${again.why}`
  return both.length > longestWhy ? known.why : both
}

function repeated(
  state: EscalationState,
  known: BoundaryRequest,
  at: Date,
  again: BoundaryRequest,
): Step<BoundaryRequest> {
  const result = repeatOf(known, at, again)
  return { state: replaceRequest(state, result), effects: [], result }
}

const repeatOf = (known: BoundaryRequest, at: Date, again: BoundaryRequest): BoundaryRequest => ({
  ...known,
  why: bothReasons(known, again),
  count: known.count + 1,
  last_at: at.toISOString(),
})
