import { boundaryRank, isReadingPhase, type BoundaryLevel } from '../../shared/boundary.ts'
import type { SavedApproval } from '../../shared/config.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { ApprovalScope, BoundaryGrant, BoundaryRequest, TaskApproval } from '../../shared/escalation.ts'
import { someHostCovers } from '../../shared/hosts.ts'
import { opensEveryHost } from '../../shared/opens.ts'
import type { EscalationState } from '../base/escalation.ts'
import { beyondAncestors } from './ancestors.ts'
import type { EscalationContext } from './context.ts'
import { filesAt } from './capabilities.ts'
import { narrowerBoundary, unique } from './config/narrow.ts'
import { forbids, refusalOf } from './forbidden.ts'
import { withHeld } from './held.ts'
import { normalised } from './normalised.ts'
import { closeOvertaken, refuseStale } from './overtaken.ts'
import {
  answered,
  assertRunning,
  current,
  eventOfDenial,
  granted,
  isShut,
  replaceRequest,
  settle,
  type EscalationEffect,
  type Held,
  type Step,
} from './step.ts'
import { stillTaken, takenByEither, takingBack } from './taken.ts'

export type Approving = Answering & {
  readonly scope: ApprovalScope
  /** When an approval that is saved ends to count; null: not by itself. */
  readonly expires?: string | null
  /** Folders that one which is saved covers; null: all there are. */
  readonly covers?: readonly string[] | null
  /** The boundary that the giver was shown; null: he goes by what holds. */
  readonly shown?: BoundaryLevel | null
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
    const questions = open.filter((request) => !isNotice(request))
    if (questions.length > 0) return questions
    if (open[0] !== undefined) throw unanswerable(open[0])
    throw new OrangeryError('boundary.nothing_open', `dispatch ${state.dispatch}: no open request`, {
      kind: 'not_found',
      hint: afterEnd(state) ?? 'See `orangery boundary show`.',
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
    if (exact.status === 'open' && isNotice(exact)) throw unanswerable(exact)
    if (exact.status === 'open') return exact
    const by = exact.answer === null ? '' : ` by ${exact.answer.by}`
    const hint = exact.status === 'closed' ? afterEnd(state) : null
    throw new OrangeryError('boundary.answered', `request ${exact.id}: it is ${exact.status} already${by}`, {
      kind: 'busy',
      ...(hint === null ? {} : { hint }),
    })
  })
}

/** Who comes when a command has failed and ended finds nothing to answer: the next run is what he can still speak of. */
function afterEnd(state: EscalationState): string | null {
  const unanswered = state.requests.filter(
    ({ status, source, answer }) => status === 'closed' && source !== 'config' && answer === null,
  )
  if (state.running || unanswered.length === 0) return null
  const { level } = current(state)
  const given = unanswered.flatMap((request) => givenBy(level, request))
  const lines = approvalsFor(state, given, null, null).map(({ note: _note, ...line }) => line)
  return [
    'It has ended. For the next run write to .orangery.json, and trust that (`orangery config trust`), or to your config.json:',
    `"sandboxApprovedEscalations": ${JSON.stringify(lines)}.`,
    'sandboxEscalationWait in your config.json gives you time to answer while it runs.',
  ].join(' ')
}

/** It asks for nothing, and stays until it holds no more: who could deny it away would think it was mended. */
const isNotice = ({ source }: BoundaryRequest): boolean => source === 'config'

const unanswerable = ({ id, why }: BoundaryRequest): OrangeryError =>
  new OrangeryError('policy.boundary_too_wide', `request ${id}: ${why}`, {
    kind: 'refused',
    hint: 'End the dispatch, or let the config allow it again.',
  })

/** A person's yes, and how far it reaches. */
export function approveRequests(
  before: EscalationState,
  answering: Approving,
  context: EscalationContext,
): Step<readonly BoundaryRequest[]> {
  const { at } = context
  const state = settle(before, at)
  const asked = openOnes(state, answering.requests)
  assertRunning(state)
  const { level: from } = current(state)
  if (answering.shown != null) refuseStale(asked, answering.shown, from)
  const refusals = asked.map((request) => {
    const forbidden = forbids(request, from, context)
    return forbidden === null
      ? beyondAncestors(state, request, context.bounds)
      : refusalOf(request, forbidden)
  })
  // One that nobody can grant holds up no other, unless it was named.
  const open = asked.filter((_, index) => refusals[index] === null)
  const refused = refusals.find((refusal) => refusal !== null)
  if (refused != null && (answering.requests !== null || open.length === 0)) throw refused
  const { scope, by, message, expires = null, covers = null } = answering
  const approved = open.map((request) => answered({ ...request, status: 'approved' }, at, scope, by, message))
  let next = approved.reduce(replaceRequest, state)
  const given = open.flatMap((request) => givenBy(from, request))
  const wishes = approvalsFor(state, given, expires, covers)
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
  const step = withHeld(granted(next, approved, at, scope, by), context)
  const save: EscalationEffect[] =
    scope === 'project' || scope === 'user' ? [{ kind: 'save', scope, approvals: wishes, by }] : []
  return { ...step, effects: [...save, ...step.effects] }
}

const meaning = ({ agent, level, hosts }: Pick<TaskApproval, 'agent' | 'level' | 'hosts'>): string =>
  JSON.stringify([agent, level, hosts])

type Given = Pick<BoundaryRequest, 'to' | 'hosts' | 'why'>

/**
 * What a yes gives, as it is kept: one that names hosts makes no files writable later, so that files are kept by
 * themselves, and so is `full`, where that was given. Otherwise the same request would be asked about for ever.
 */
function givenBy(from: BoundaryLevel, { to, hosts, why }: Given): readonly Given[] {
  if (hosts.length > 0 && opensEveryHost(from, { to, hosts })) return [{ to, hosts: [], why }]
  const makesWritable = hosts.length > 0 && filesAt(from) === 'ro' && filesAt(to) === 'rw'
  return [...(makesWritable ? [{ to: 'readwrite' as const, hosts: [], why }] : []), { to, hosts, why }]
}

/**
 * Per level one approval with all its hosts, and one for who asked for the level itself: neither says the other. One that
 * was given in a read-only phase counts there: who lets one plan write has not spoken of what learns.
 */
function approvalsFor(
  { agent, phase }: Pick<EscalationState, 'agent' | 'phase'>,
  requests: readonly Given[],
  expires: string | null,
  covers: readonly string[] | null,
): SavedApproval[] {
  const levels = unique(requests.map((request) => request.to))
  const groups = levels.flatMap((level) =>
    [false, true].map((namesHosts) =>
      requests.filter(({ to, hosts }) => to === level && hosts.length > 0 === namesHosts),
    ),
  )
  return groups.flatMap((alike) => {
    const [first] = alike
    if (first === undefined) return []
    const { to: level } = first
    const approval = {
      agent,
      level,
      hosts: unique(alike.flatMap((request) => request.hosts)),
      ...(isReadingPhase(phase) ? { phase } : {}),
      ...(covers === null ? {} : { roots: [...covers] }),
      ...(expires === null ? {} : { expires }),
      note: unique(alike.map((request) => request.why)).join('; '),
    }
    return [approval]
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
  /** Left out: the level stays. */
  readonly to?: BoundaryLevel
  /** Patterns of hosts to take back; none: with the level go all that were granted. */
  readonly hosts?: readonly string[]
  /** What was granted stays open at the lower level: somebody approved that, and only the level goes. */
  readonly keepsHosts?: boolean
  readonly by: string
  readonly why: string
  /** `narrowed`: a person did it, and is asked before anything comes back. `config`: it allows less than before. */
  readonly way: 'narrowed' | 'config'
}

/** What is on record of hosts taken back names them, also where who did it gave no reason. */
function reasonOf({ why }: Narrowing, hosts: readonly string[]): string {
  if (hosts.length === 0) return why
  const what = `${hosts.join(', ')} taken back`
  return why === '' ? what : `${what}: ${why}`
}

/** Takes rights back from a running agent: a lower level, the same without the granted hosts, or single hosts. */
export function narrowBoundary(
  before: EscalationState,
  narrowing: Narrowing,
  { at }: Pick<EscalationContext, 'at'>,
): Step<BoundaryGrant> {
  assertRunning(before)
  const state = settle(before, at)
  const now = current(state)
  const { to = now.level, by, way } = narrowing
  if (boundaryRank(to) > boundaryRank(now.level)) {
    throw new OrangeryError('boundary.not_narrower', `boundary ${to}: wider than ${now.level}`, {
      kind: 'input',
      hint: 'Use `orangery boundary request` to widen.',
    })
  }
  const going = normalised(narrowing.hosts ?? [])
  const why = reasonOf(narrowing, going)
  const isOfHosts = going.length > 0 && to === now.level
  const keepsHosts = isOfHosts || narrowing.keepsHosts === true
  const hosts = keepsHosts ? now.hosts.filter((host) => !someHostCovers(going, host)) : []
  // What was given again was granted, too, and goes with all that was.
  const { taken, returned } = takingBack(keepsHosts ? now : { ...now, returned: [] }, going)
  const grant: BoundaryGrant = {
    at: at.toISOString(),
    from: now.level,
    to,
    hosts,
    taken: [...taken],
    returned: [...returned],
    by,
    why,
    way: isOfHosts || to !== now.level || way === 'config' ? way : 'closed',
    request: null,
  }
  const from = { at, by, way: way === 'config' ? way : 'once' } as const
  const narrowed = { from: now.level, now: to, hosts: going }
  const left = closeOvertaken({ ...state, grants: [...state.grants, grant] }, narrowed, from)
  return {
    state: left.state,
    effects: [
      { kind: 'apply', to, hosts, by, why },
      ...left.closed.map((request) => eventOfDenial(request, by, request.answer?.message ?? '')),
    ],
    result: grant,
  }
}

/**
 * What a parent was deprived of while it started somebody, its child does not begin with: neither a level nor a host.
 * (escape: taken-host-by-child, widen-through-child)
 */
export function inheritNarrowing(
  state: EscalationState,
  at: Date,
): Pick<Step<BoundaryGrant | null>, 'state' | 'result'> {
  const [parent] = state.ancestors
  if (parent === undefined) return { state, result: null }
  const above = current(parent)
  const now = current(state)
  const to = narrowerBoundary(now.level, above.level)
  const isLower = to !== now.level
  const hasMoreHosts = !above.taken.every((host) => now.taken.includes(host))
  const isToShut = isShut(parent) && !isShut(state) && boundaryRank(to) < boundaryRank('network')
  if (!isLower && !hasMoreHosts && !isToShut) return { state, result: null }
  const { taken, returned } =
    hasMoreHosts && state.grants.length > 0 ? takenByEither(now, above) : hasMoreHosts ? above : now
  const why = [
    ...(isLower || isToShut ? [`its parent ${parent.dispatch} was narrowed to ${above.level}`] : []),
    ...(hasMoreHosts
      ? [`${stillTaken(above).join(', ')} taken back from its parent ${parent.dispatch}`]
      : []),
  ]
  const inherited: BoundaryGrant = {
    at: at.toISOString(),
    from: now.level,
    to,
    hosts: isLower ? [] : [...now.hosts],
    taken: [...taken],
    returned: [...returned],
    by: 'supervisor',
    why: why.join('; '),
    way: isToShut && !isLower ? 'closed' : 'narrowed',
    request: null,
  }
  return { state: { ...state, grants: [...state.grants, inherited] }, result: inherited }
}

export type Undoing = {
  /** What held before, and how many grants there were with the one that failed. */
  readonly before: Held
  readonly grants: number
  /** Approvals for the task that came with it, by their ids. */
  readonly forTask: readonly string[]
  readonly why: string
  readonly at: Date
}

/**
 * What holds once a change that did not take is taken back. Whoever decided meanwhile has the last word: what he
 * took must not come back with it. (escape: undo-after-narrowing)
 */
function heldAfter(state: EscalationState, { before, grants }: Undoing): Held {
  const now = current(state)
  if (state.grants.length === grants) return before
  return {
    level: narrowerBoundary(now.level, before.level),
    hosts: now.hosts.filter((host) => before.hosts.includes(host)),
    ...takenByEither(now, before),
  }
}

/** The live change did not take: the record says so, and the question is open again. */
export function undoGrant(
  state: EscalationState,
  requests: readonly BoundaryRequest[],
  undoing: Undoing,
): EscalationState {
  const now = current(state)
  const held = heldAfter(state, undoing)
  const undone: BoundaryGrant = {
    at: undoing.at.toISOString(),
    from: now.level,
    to: held.level,
    hosts: [...held.hosts],
    taken: [...held.taken],
    returned: [...held.returned],
    by: 'supervisor',
    why: undoing.why,
    way: 'undone',
    request: null,
  }
  const reopened = requests.map((request): BoundaryRequest => ({ ...request, status: 'open', answer: null }))
  // Listed on, it would say yes to a child, or the next turn, that nobody has given in the end.
  const taskApprovals = state.taskApprovals.map((approval) =>
    undoing.forTask.includes(approval.id)
      ? { ...approval, revoked_at: approval.revoked_at ?? undone.at }
      : approval,
  )
  const grants = [...state.grants, undone]
  const open = reopened.reduce(replaceRequest, { ...state, grants, taskApprovals })
  const between = { from: undoing.before.level, now: held.level, hosts: [] }
  const { state: left } = closeOvertaken(open, between, { at: undoing.at, by: undone.by, way: 'once' })
  const failed = state.grants[undoing.grants - 1]
  if (failed === undefined) return left
  const isHigher = boundaryRank(failed.to) < boundaryRank(held.level)
  const isFreer =
    failed.taken.some((host) => !held.taken.includes(host)) ||
    held.returned.some((host) => !failed.returned.includes(host))
  if (!isHigher && !isFreer) return left
  // What was denied only because of it is denied no more: nobody need answer that.
  const isOfIt = ({ status, source, created_at: created }: BoundaryRequest) =>
    status === 'open' && (source === 'broker' || source === 'driver') && created >= failed.at
  const settled = left.requests.map((request) =>
    isOfIt(request) ? { ...request, status: 'closed' as const } : request,
  )
  return { ...left, requests: settled }
}
