import { boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import { portsOf, showTarget } from '../../shared/hosts.ts'
import { filesAt } from './capabilities.ts'
import type { Asking } from './escalation.ts'

/** A denial that was observed outside the sandbox, by the broker or the driver; never what a program printed. */
export type Denial =
  /** Without a port where a program only asked for the host's address: then it lacks the host, whatever the port. */
  | { readonly kind: 'host'; readonly host: string; readonly port: number | null }
  /** `to`: the level at which it could be written; null: there is none. */
  | { readonly kind: 'write'; readonly path: string; readonly to?: BoundaryLevel | null }

/**
 * What a denial asks for. A read-only agent that lacks a host is offered the host and nothing more: its files
 * stay read-only. Nor is one at `full` offered `full` again: its yes might come when it has been narrowed since.
 * (escape: one-host-for-all)
 */
export function wishOfDenial(
  level: BoundaryLevel,
  denial: Denial,
  /** Hosts that a person took back. */
  taken: readonly string[] = [],
): Pick<Asking, 'to' | 'hosts' | 'source' | 'why'> {
  if (denial.kind === 'write') {
    const usual = boundaryRank(level) < boundaryRank('readwrite') ? 'readwrite' : level
    const to = denial.to === undefined ? usual : (denial.to ?? level)
    return { to, hosts: [], source: 'driver', why: `a write was denied: ${denial.path}` }
  }
  const to = filesAt(level) === 'rw' ? 'network' : level
  const target = showTarget(denial)
  // Who looks a name up says no port: a yes would open more than there was before it was taken back.
  const ports = portsOf(taken, target)
  const hosts = ports.length === 0 ? [target] : ports.map((port) => showTarget({ host: denial.host, port }))
  return { to, hosts, source: 'broker', why: `${hosts.join(', ')} was denied` }
}
