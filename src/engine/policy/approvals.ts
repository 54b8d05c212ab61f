import { boundaryRank, isReadingPhase, type BoundaryLevel } from '../../shared/boundary.ts'
import { shortApprovalId, type EffectiveApproval } from '../../shared/config.ts'
import type { AnswerWay, BoundaryRequest } from '../../shared/escalation.ts'
import { portsOf, someHostCovers } from '../../shared/hosts.ts'
import type { EscalationState } from '../base/escalation.ts'
import { filesAt } from './capabilities.ts'
import { beyondAncestors } from './ancestors.ts'
import { unique } from './config/narrow.ts'
import type { EscalationContext } from './context.ts'
import { forbids } from './forbidden.ts'
import { current, opensEverything } from './step.ts'

/** At `full` already, and not at every host: those a person opens who says yes to this, and nothing else does. */
export const asksForEveryHost = (
  state: EscalationState,
  { to, hosts }: Pick<BoundaryRequest, 'to' | 'hosts'>,
  { namesOutputs = false }: EscalationContext,
): boolean =>
  namesOutputs &&
  to === 'full' &&
  hosts.length === 0 &&
  current(state).level === 'full' &&
  state.ancestors.length === 0 &&
  !opensEverything(state)

const isInside = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder === '/' ? '/' : `${folder}/`)

export const coversRoot = ({ covers }: Pick<EffectiveApproval, 'covers'>, root: string): boolean =>
  covers === null || covers.some((folder) => isInside(root, folder))

type Reach = Pick<EffectiveApproval, 'agent' | 'level' | 'hosts'>

function reaches(
  approval: Reach,
  agent: string,
  now: BoundaryLevel,
  wish: Pick<BoundaryRequest, 'to' | 'hosts'>,
): boolean {
  if (approval.agent !== '*' && approval.agent !== agent) return false
  const isHigher = boundaryRank(wish.to) > boundaryRank(now)
  const isReached = boundaryRank(approval.level) >= boundaryRank(wish.to)
  if (approval.hosts.length === 0) return isReached && (approval.level === 'full' || wish.hosts.length === 0)
  // Who said yes to a host spoke of that host: neither of files nor of every host there is. (escape: host-for-files)
  if (wish.hosts.length === 0) return false
  // Where the level stays, the host is all that is given, whichever level it was once approved at.
  if (isHigher && (!isReached || filesAt(wish.to) !== filesAt(now) || wish.to === 'full')) return false
  return wish.hosts.every((host) => someHostCovers(approval.hosts, host))
}

/**
 * The saved approvals that together answer a wish: each must reach it in full, and between them they must
 * cover every root, because a project speaks only for its own folder.
 */
export function savedApprovalsFor(
  state: Pick<EscalationState, 'agent' | 'phase' | 'start' | 'grants'>,
  wish: Pick<BoundaryRequest, 'to' | 'hosts'>,
  { at, config, roots }: EscalationContext,
): readonly EffectiveApproval[] | null {
  const { level } = current(state)
  const fitting = config.sandboxApprovedEscalations.filter(
    (approval) =>
      (approval.expires === undefined || new Date(approval.expires) > at) &&
      (approval.phase === undefined || approval.phase === state.phase) &&
      reaches(approval, state.agent, level, wish),
  )
  const used = new Set<EffectiveApproval>()
  for (const root of roots) {
    const found = fitting.find((approval) => coversRoot(approval, root))
    if (found === undefined) return null
    used.add(found)
  }
  return used.size === 0 ? null : [...used]
}

/** The policy `auto`: only what the broker or the driver denied, only where the user's own file names host and root. */
function autoAllows(
  state: EscalationState,
  wish: BoundaryRequest,
  { config, roots }: EscalationContext,
): boolean {
  if (config.sandboxEscalationPolicy !== 'auto') return false
  if (wish.source !== 'broker' && wish.source !== 'driver') return false
  if (isReadingPhase(state.phase)) return false
  if (wish.to === 'full') return false
  const { hosts, roots: named } = config.sandboxAutoEscalation
  return (
    roots.length > 0 &&
    roots.every((root) => named.some((folder) => isInside(root, folder))) &&
    wish.hosts.every((host) => someHostCovers(hosts, host)) &&
    (wish.hosts.length > 0 || wish.to === 'readwrite')
  )
}

const isNarrowed = ({ grants }: Pick<EscalationState, 'grants'>): boolean =>
  grants.some(({ way }) => way === 'narrowed' || way === 'closed')

/**
 * Every grant keeps all hosts that were granted: an agent that makes up names below a saved `*.example.com` would fill
 * the records, and make who reads them slow.
 */
const mostOpened = 300

/** An answer that needs no person, and the wish as far as it is answered. */
export type Standing = {
  readonly way: AnswerWay
  readonly by: string
  readonly wish: BoundaryRequest
  readonly message: string
}

/** Whether a wish needs no person: an earlier yes covers it, or the policy does. Null: a person decides. */
export function standingApproval(
  state: EscalationState,
  wish: BoundaryRequest,
  context: EscalationContext,
): Standing | null {
  const { level } = current(state)
  // Who lacks a host is served with the host alone: it was perhaps approved at a lower level than that of the wish.
  const served = wish.to === 'network' && level === 'readwrite' && wish.hosts.length > 0
  const wishes = served ? [wish, { ...wish, to: level }] : [wish]
  for (const each of wishes) {
    const answer = answerFor(state, each, context)
    if (answer !== null) return { ...answer, wish: each, message: '' }
  }
  for (const each of wishes) {
    const answer = answerForPorts(state, each, context)
    if (answer !== null) return answer
  }
  return null
}

/**
 * A program that asks for a name says no port, and lacks the host whatever the port. Of one that was approved with its
 * ports it is given these, and no other. Who asks for the host in so many words is not answered with less.
 */
function answerForPorts(
  state: EscalationState,
  wish: BoundaryRequest,
  context: EscalationContext,
): Standing | null {
  const [host] = wish.hosts
  if (wish.source !== 'broker' || wish.hosts.length !== 1 || host === undefined) return null
  const { config } = context
  const named = [
    ...config.sandboxApprovedEscalations.flatMap(({ hosts }) => hosts),
    ...state.taskApprovals.flatMap(({ hosts }) => hosts),
    ...config.sandboxAutoEscalation.hosts,
  ]
  const found = portsOf(named, host).flatMap((port) => {
    const each = { ...wish, hosts: [`${host}:${port}`] }
    if (forbids(each, current(state).level, context) !== null) return []
    const answer = answerFor(state, each, context)
    return answer === null ? [] : [{ ...answer, hosts: each.hosts }]
  })
  const way = found[0]?.way
  if (way === undefined) return null
  // One change has one way. What another opens is asked for again, with its port, when somebody connects to it.
  const alike = found.filter((each) => each.way === way)
  const by = unique(alike.map((each) => each.by)).join(', ')
  // Where nobody listens, an attempt at another port leaves no trace: this much of it is on record.
  const message = `Approved of ${host} is only this. Another port has to be asked for with its number.`
  return { way, by, wish: { ...wish, hosts: alike.flatMap(({ hosts }) => hosts) }, message }
}

function answerFor(
  state: EscalationState,
  wish: BoundaryRequest,
  context: EscalationContext,
): Earlier | null {
  // What a program prints is nobody's word: not even an earlier yes may answer it. (escape: printed-denial)
  if (wish.source === 'output' || context.isUnreadable === true) return null
  // A person who took rights back decides on every step from then on, whatever was saved earlier.
  if (isNarrowed(state)) return null
  if (wish.hosts.length > 0 && current(state).hosts.length >= mostOpened) return null
  // Nor may an agent get through a child what was taken from itself, or what it has to ask for itself.
  // (escape: widen-through-child)
  if (state.ancestors.some(isNarrowed)) return null
  if (beyondAncestors(state, wish, context.bounds) !== null) return null
  if (asksForEveryHost(state, wish, context)) return null
  const earlier = earlierYes(state, wish, context) ?? earlierYesInSteps(state, wish, context)
  if (earlier !== null) return earlier
  return autoAllows(state, wish, context) ? { way: 'auto', by: 'policy auto' } : null
}

type Earlier = Pick<Standing, 'way' | 'by'>

function earlierYes(
  state: EscalationState,
  wish: BoundaryRequest,
  context: EscalationContext,
): Earlier | null {
  const saved = savedApprovalsFor(state, wish, context)
  if (saved !== null) {
    return {
      way: 'saved',
      by: saved.map(({ source, id }) => `saved approval ${shortApprovalId(id)} (${source})`).join(', '),
    }
  }
  const { level } = current(state)
  const task = state.taskApprovals.find(
    (approval) =>
      approval.task === state.task &&
      approval.revoked_at === null &&
      reaches(approval, state.agent, level, wish),
  )
  // Not as if he had said it now: of `full` an earlier yes opens no more than one in a file does. (escape: one-host-for-all)
  return task === undefined ? null : { way: 'saved', by: `${task.by}, for the task (approval ${task.id})` }
}

/** Files and hosts in one wish: a yes to the files and one to the hosts give it, as if it asked for one after the other. */
function earlierYesInSteps(
  state: EscalationState,
  wish: BoundaryRequest,
  context: EscalationContext,
): Earlier | null {
  if (wish.hosts.length === 0 || filesAt(current(state).level) === 'rw' || filesAt(wish.to) === 'ro')
    return null
  const files = earlierYes(state, { ...wish, to: 'readwrite', hosts: [] }, context)
  if (files === null) return null
  const hosts = earlierYes({ ...state, start: 'readwrite', grants: [] }, wish, context)
  return hosts === null ? null : { way: hosts.way, by: [...new Set([files.by, hosts.by])].join(', ') }
}
