import { boundaryRank } from '../../shared/boundary.ts'
import type { BoundaryRequest } from '../../shared/escalation.ts'
import { parseHostPattern, portsOf, someHostCovers, usualPorts } from '../../shared/hosts.ts'
import type { EscalationState } from '../base/escalation.ts'
import { asksForEveryHost } from './approvals.ts'
import type { EscalationContext } from './context.ts'
import { filesAt } from './capabilities.ts'
import { forbids } from './forbidden.ts'
import { answered, current, opensGrantedOnly, replaceRequest, type Step } from './step.ts'
import { isTaken } from './taken.ts'

const portOf = (host: string): number | null => parseHostPattern(host)?.port ?? null

/** Whether what holds now is all that is wished for. */
function isHeld(state: EscalationState, wish: BoundaryRequest, context: EscalationContext): boolean {
  const now = current(state)
  // A host that is open is open, also where the wish names the level that hosts are mostly opened at.
  const isForHosts = wish.hosts.length > 0 && wish.to === 'network' && filesAt(now.level) === 'rw'
  const isOpen = wish.hosts.length > 0 && context.isOpen?.(state) === true
  // At any other port a program that knows no proxy finds a host only once it is named.
  const isReached = (host: string) => isOpen && [null, ...usualPorts].includes(portOf(host))
  return (
    forbids(wish, now.level, context) === null &&
    (isForHosts || boundaryRank(wish.to) <= boundaryRank(now.level)) &&
    wish.hosts.every((host) => (someHostCovers(now.hosts, host) || isReached(host)) && !isTaken(now, host)) &&
    !(wish.to === 'network' && wish.hosts.length === 0 && opensGrantedOnly(state)) &&
    !asksForEveryHost(state, wish, context)
  )
}

/**
 * The answer to a wish for what holds now; null: it lacks something. A program that asks for a name says no port: with one
 * of them granted it gets through, and a yes to the name would open all the others. (escape: one-host-for-all)
 */
export function heldAlready(
  state: EscalationState,
  wish: BoundaryRequest,
  context: EscalationContext,
): BoundaryRequest | null {
  const held = (what: string) =>
    answered({ ...wish, status: 'approved' }, context.at, 'config', 'boundary', `It has ${what} already.`)
  if (isHeld(state, wish, context)) return held('this')
  const [name] = wish.hosts
  if (wish.source !== 'broker' || wish.hosts.length !== 1 || name === undefined) return null
  const hosts = portsOf(current(state).hosts, name)
    .map((port) => `${name}:${port}`)
    .filter((host) => isHeld(state, { ...wish, hosts: [host] }, context))
  return hosts.length === 0 ? null : held(hosts.join(', '))
}

/** What else was asked for and came with another yes: nobody need answer it, and who waits for it is told. */
export function withHeld<T>(step: Step<T>, context: EscalationContext): Step<T> {
  const open = step.state.requests.filter(({ status, source }) => status === 'open' && source !== 'config')
  const state = open
    .flatMap((wish) => heldAlready(step.state, wish, context) ?? [])
    .reduce(replaceRequest, step.state)
  return { ...step, state }
}
