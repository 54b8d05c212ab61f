import { boundaryLevels, boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import type { SavedApproval } from '../../shared/config.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type {
  AnswerWay,
  ApprovalScope,
  BoundaryGrant,
  BoundaryRequest,
  RequestSource,
  TaskApproval,
} from '../../shared/escalation.ts'
import type { EventBody } from '../../shared/events.ts'
import { formatHostPattern, parseHostPattern } from '../../shared/hosts.ts'
import type { EscalationState } from '../base/escalation.ts'
import { standingApproval, type EscalationContext } from './approvals.ts'
import { unique } from './config/narrow.ts'

/** Changes below these only with thought: they are what keeps an agent from wearing a person down. */
export const escalationLimits = {
  requestLastsMs: 15 * 60_000,
  /** A denial answers the same question again for this long. */
  denialHoldsMs: 10 * 60_000,
  floodWindowMs: 60_000,
  floodRequests: 10,
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

/** What holds now. */
export function current(state: EscalationState): { level: BoundaryLevel; hosts: readonly string[] } {
  const last = state.grants.at(-1)
  return last === undefined ? { level: state.start, hosts: [] } : { level: last.to, hosts: last.hosts }
}

const widest = (levels: readonly BoundaryLevel[]): BoundaryLevel =>
  boundaryLevels[Math.max(...levels.map(boundaryRank))] as BoundaryLevel

function normalised(hosts: readonly string[]): string[] {
  return unique(
    hosts.map((text) => {
      const pattern = parseHostPattern(text)
      if (pattern !== undefined) return formatHostPattern(pattern)
      throw new OrangeryError('boundary.host', `${JSON.stringify(text)}: not a host`, {
        kind: 'input',
        hint: 'Write example.com, example.com:443 or *.example.org.',
      })
    }),
  ).sort()
}

const sameWish = (
  a: Pick<BoundaryRequest, 'to' | 'hosts'>,
  b: Pick<BoundaryRequest, 'to' | 'hosts'>,
): boolean =>
  a.to === b.to &&
  a.hosts.length === b.hosts.length &&
  a.hosts.every((host, index) => host === b.hosts[index])

function replaceRequest(state: EscalationState, request: BoundaryRequest): EscalationState {
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

function assertRunning(state: EscalationState): void {
  if (state.running) return
  throw new OrangeryError('boundary.not_running', `dispatch ${state.dispatch}: it is not running`, {
    kind: 'busy',
    hint: 'A boundary belongs to a running agent; give a new dispatch the boundary it needs.',
  })
}

function assertNoFlood(state: EscalationState, asking: Asking, at: Date): void {
  if (asking.source === 'user') return
  const since = at.getTime() - escalationLimits.floodWindowMs
  const fresh = state.requests.filter(
    (request) => request.source !== 'user' && new Date(request.created_at).getTime() > since,
  )
  const open = state.requests.filter((request) => request.status === 'open')
  if (fresh.length < escalationLimits.floodRequests && open.length < escalationLimits.mostOpen) return
  throw new OrangeryError('boundary.flood', `dispatch ${state.dispatch}: too many requests at once`, {
    kind: 'busy',
    hint: 'Wait for the answers to those that are open.',
  })
}

function answered(
  request: BoundaryRequest,
  at: Date,
  way: AnswerWay,
  by: string,
  message: string,
): BoundaryRequest {
  return { ...request, answer: { at: at.toISOString(), by, way, message } }
}

function granted(
  state: EscalationState,
  requests: readonly BoundaryRequest[],
  at: Date,
  way: AnswerWay,
  by: string,
): Step<readonly BoundaryRequest[]> {
  const now = current(state)
  const to = widest([now.level, ...requests.map((request) => request.to)])
  const hosts = unique([...now.hosts, ...requests.flatMap((request) => request.hosts)])
  const why = unique(requests.map((request) => request.why)).join('; ')
  const grant: BoundaryGrant = {
    at: at.toISOString(),
    from: now.level,
    to,
    hosts,
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

const eventOfRequest = (request: BoundaryRequest): EscalationEffect => ({
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
const eventOfDenial = (request: BoundaryRequest, by: string, why: string): EscalationEffect => ({
  kind: 'tell',
  event: { type: 'BoundaryDenied', request: request.id, by, why },
})

/** Request → saved approval → policy → left for a person. */
export function fileRequest(
  before: EscalationState,
  asking: Asking,
  context: EscalationContext,
): Step<BoundaryRequest> {
  assertRunning(before)
  const { at, config } = context
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
  if (
    boundaryRank(wish.to) <= boundaryRank(now.level) &&
    wish.hosts.every((host) => now.hosts.includes(host))
  ) {
    const has = answered({ ...wish, status: 'approved' }, at, 'config', 'boundary', 'It has this already.')
    return { state, effects: [], result: has }
  }
  const again = state.requests.find((known) => known.status === 'open' && sameWish(known, wish))
  if (again !== undefined) return repeated(state, again, at)
  if (asking.source !== 'user') {
    const since = at.getTime() - escalationLimits.denialHoldsMs
    const denied = state.requests.findLast(
      (known) =>
        known.status === 'denied' &&
        sameWish(known, wish) &&
        new Date(known.answer?.at ?? 0).getTime() > since,
    )
    if (denied !== undefined) return repeated(state, denied, at)
  }
  assertNoFlood(state, asking, at)
  const filed: EscalationState = { ...state, requests: [...state.requests, wish] }
  const maximum = config.sandboxMaximumBoundary
  if (boundaryRank(wish.to) > boundaryRank(maximum)) {
    const why = `The policy allows ${maximum} at most.`
    const denied = answered({ ...wish, status: 'denied' }, at, 'policy', 'policy', why)
    return {
      state: replaceRequest(filed, denied),
      effects: [eventOfRequest(denied), eventOfDenial(denied, 'policy', why)],
      result: denied,
    }
  }
  const standing = standingApproval(state, wish, context)
  if (standing === null) return { state: filed, effects: [eventOfRequest(wish)], result: wish }
  const approved = answered({ ...wish, status: 'approved' }, at, standing.way, standing.by, '')
  const step = granted(replaceRequest(filed, approved), [approved], at, standing.way, standing.by)
  return { ...step, effects: [eventOfRequest(approved), ...step.effects], result: approved }
}

/** Answers open requests that an approval, saved meanwhile, now covers. */
export function approveStanding(
  before: EscalationState,
  context: EscalationContext,
): Step<readonly BoundaryRequest[]> {
  const settled = settle(before, context.at)
  let step: Step<readonly BoundaryRequest[]> = { state: settled, effects: [], result: [] }
  if (!settled.running) return step
  for (const request of settled.requests) {
    const beyond = boundaryRank(request.to) > boundaryRank(context.config.sandboxMaximumBoundary)
    if (request.status !== 'open' || beyond) continue
    const standing = standingApproval(step.state, request, context)
    if (standing === null) continue
    const approved = answered({ ...request, status: 'approved' }, context.at, standing.way, standing.by, '')
    const next = granted(
      replaceRequest(step.state, approved),
      [approved],
      context.at,
      standing.way,
      standing.by,
    )
    // Each apply carries the whole, so the last one is enough.
    step = { state: next.state, effects: next.effects, result: [...step.result, approved] }
  }
  return step
}

function repeated(state: EscalationState, known: BoundaryRequest, at: Date): Step<BoundaryRequest> {
  const result = { ...known, count: known.count + 1, last_at: at.toISOString() }
  return { state: replaceRequest(state, result), effects: [], result }
}

export type Answering = {
  /** Null: all that are open. */
  readonly requests: readonly string[] | null
  readonly by: string
  readonly message: string
}

function openOnes(state: EscalationState, wanted: readonly string[] | null): BoundaryRequest[] {
  if (wanted === null) {
    const open = state.requests.filter((request) => request.status === 'open')
    if (open.length > 0) return open
    throw new OrangeryError('boundary.nothing_open', `dispatch ${state.dispatch}: no open request`, {
      kind: 'not_found',
      hint: 'See `orangery boundary show`.',
    })
  }
  return wanted.map((id) => {
    const matches = state.requests.filter((request) => request.id.startsWith(id) && id !== '')
    const exact =
      matches.find((request) => request.id === id) ?? (matches.length === 1 ? matches[0] : undefined)
    if (exact === undefined) {
      throw new OrangeryError('boundary.no_request', `request ${id}: dispatch ${state.dispatch} has none`, {
        kind: 'not_found',
        hint: 'See `orangery boundary show`.',
      })
    }
    if (exact.status === 'open') return exact
    const by = exact.answer === null ? '' : ` by ${exact.answer.by}`
    throw new OrangeryError('boundary.answered', `request ${exact.id}: it is ${exact.status} already${by}`, {
      kind: 'busy',
    })
  })
}

/** A person's yes, and how far it reaches. */
export function approveRequests(
  before: EscalationState,
  answering: Answering & { readonly scope: ApprovalScope },
  { at, config }: EscalationContext,
): Step<readonly BoundaryRequest[]> {
  const state = settle(before, at)
  const open = openOnes(state, answering.requests)
  assertRunning(state)
  const maximum = config.sandboxMaximumBoundary
  const beyond = open.find((request) => boundaryRank(request.to) > boundaryRank(maximum))
  if (beyond !== undefined) {
    throw new OrangeryError(
      'policy.boundary_too_wide',
      `boundary ${beyond.to}: the policy allows ${maximum} at most`,
      {
        kind: 'refused',
        hint: 'Deny it, or change sandboxMaximumBoundary in your config.',
      },
    )
  }
  const { scope, by, message } = answering
  const approved = open.map((request) => answered({ ...request, status: 'approved' }, at, scope, by, message))
  let next = approved.reduce(replaceRequest, state)
  const wishes = approvalsFor(state.agent, open)
  if (scope === 'task') {
    const known = new Set(
      state.taskApprovals.filter(({ revoked_at: revoked }) => revoked === null).map(meaning),
    )
    const fresh = wishes
      .map(({ level, hosts }, index) => ({
        // Asked again after a failed change, the same request gives a second approval of another name.
        id: `${open[0]?.id ?? ''}.${state.taskApprovals.length + index}`,
        task: state.task,
        agent: state.agent,
        level,
        hosts,
        by,
        at: at.toISOString(),
        revoked_at: null,
      }))
      .filter((approval) => !known.has(meaning(approval)))
    next = { ...next, taskApprovals: [...next.taskApprovals, ...fresh] }
  }
  const step = granted(next, approved, at, scope, by)
  const save: EscalationEffect[] =
    scope === 'project' || scope === 'user' ? [{ kind: 'save', scope, approvals: wishes, by }] : []
  return { ...step, effects: [...save, ...step.effects] }
}

const meaning = ({ agent, level, hosts }: Pick<TaskApproval, 'agent' | 'level' | 'hosts'>): string =>
  JSON.stringify([agent, level, hosts])

/** One approval per level, with all its hosts. */
function approvalsFor(agent: string, requests: readonly BoundaryRequest[]): SavedApproval[] {
  return unique(requests.map((request) => request.to)).map((level) => {
    const alike = requests.filter((request) => request.to === level)
    return {
      agent,
      level,
      hosts: unique(alike.flatMap((request) => request.hosts)),
      note: unique(alike.map((request) => request.why)).join('; '),
    }
  })
}

/** A person's no, with the word for the agent. */
export function denyRequests(
  before: EscalationState,
  answering: Answering,
  { at }: Pick<EscalationContext, 'at'>,
): Step<readonly BoundaryRequest[]> {
  const state = settle(before, at)
  const { by, message } = answering
  const denied = openOnes(state, answering.requests).map((request) =>
    answered({ ...request, status: 'denied' }, at, 'once', by, message),
  )
  return {
    state: denied.reduce(replaceRequest, state),
    effects: denied.map((request) => eventOfDenial(request, by, message)),
    result: denied,
  }
}

export type Narrowing = {
  readonly to: BoundaryLevel
  readonly by: string
  readonly why: string
  /** `narrowed`: a person did it, and is asked before anything comes back. `config`: its maximum was lowered. */
  readonly way: 'narrowed' | 'config'
}

/** Takes rights back from a running agent: a lower level, or the same without the granted hosts. */
export function narrowBoundary(
  before: EscalationState,
  narrowing: Narrowing,
  { at }: Pick<EscalationContext, 'at'>,
): Step<BoundaryGrant> {
  assertRunning(before)
  const state = settle(before, at)
  const now = current(state)
  if (boundaryRank(narrowing.to) > boundaryRank(now.level)) {
    throw new OrangeryError('boundary.not_narrower', `boundary ${narrowing.to}: wider than ${now.level}`, {
      kind: 'input',
      hint: 'Use `orangery boundary request` to widen.',
    })
  }
  const { to, by, why, way } = narrowing
  const grant: BoundaryGrant = {
    at: at.toISOString(),
    from: now.level,
    to,
    hosts: [],
    by,
    why,
    way,
    request: null,
  }
  return {
    state: { ...state, grants: [...state.grants, grant] },
    effects: [{ kind: 'apply', to, hosts: [], by, why }],
    result: grant,
  }
}

/** The live change did not take: the record says so, and the question is open again. */
export function undoGrant(
  state: EscalationState,
  before: { readonly level: BoundaryLevel; readonly hosts: readonly string[] },
  requests: readonly BoundaryRequest[],
  undoing: { readonly why: string; readonly at: Date },
): EscalationState {
  const now = current(state)
  const undone: BoundaryGrant = {
    at: undoing.at.toISOString(),
    from: now.level,
    to: before.level,
    hosts: [...before.hosts],
    by: 'supervisor',
    why: undoing.why,
    way: 'undone',
    request: null,
  }
  const reopened = requests.map((request): BoundaryRequest => ({ ...request, status: 'open', answer: null }))
  return reopened.reduce(replaceRequest, { ...state, grants: [...state.grants, undone] })
}
