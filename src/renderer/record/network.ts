import { sandboxEffectiveSchema } from '../../shared/effective.ts'
import type { LoggedEvent } from '../../shared/events.ts'
import { parseHostPattern, showTarget, someHostCovers } from '../../shared/hosts.ts'

export type Reached = {
  /** `host:port`, or the host alone where it asked only for its address. */
  readonly host: string
  readonly allowed: number
  readonly denied: number
  /** How often it was allowed and nobody answered, which is known at the end. */
  readonly unreachable?: number
  /** Why the last attempt was denied; null where none was. */
  readonly why: string | null
  /** Whether the last attempt got through. */
  readonly isOpen: boolean
  /** Null before the first count. */
  readonly bytes: number | null
}

/**
 * Whether somebody can allow it: it is a host, and it is missing, not granted since, not forbidden by a rule that wins over
 * every other, nor in a place that only a pin opens.
 */
export const canBeAllowed = ({ host, denied, why, isOpen }: Reached): boolean =>
  denied > 0 &&
  !isOpen &&
  parseHostPattern(host) !== undefined &&
  !/^denied by|a pin .*opens$|a pin opens$/.test(why ?? '')

/** Whether it can be taken back: it got through when it was last tried, by this name. */
export const canBeTaken = ({ host, isOpen }: Reached): boolean =>
  isOpen && parseHostPattern(host) !== undefined

/** Every host it tried, what became of it and how much went over: as logged while it runs, exact when it has ended. */
export function networkOf(events: readonly LoggedEvent[], effective: unknown): readonly Reached[] {
  const hosts = new Map<string, { -readonly [K in keyof Omit<Reached, 'host'>]: Reached[K] }>()
  const at = (host: string) => {
    const known = hosts.get(host) ?? { allowed: 0, denied: 0, why: null, isOpen: false, bytes: null }
    hosts.set(host, known)
    return known
  }
  const named = (host: string) => showTarget({ host, port: null })
  const carried = new Map<string, number>()
  for (const { event } of events) {
    if (event.type === 'EgressCarried')
      for (const { host, bytes } of event.hosts) carried.set(named(host), bytes)
    if (event.type === 'BoundaryEscalated')
      for (const [host, known] of hosts) if (someHostCovers(event.hosts ?? [], host)) known.isOpen = true
    if (event.type !== 'EgressDecided') continue
    const known = at(showTarget(event))
    const count = event.count ?? 1
    known.isOpen = event.allowed
    if (event.allowed) known.allowed += count
    else {
      known.denied += count
      known.why = event.why
    }
  }
  // Counted by host, whatever the port: it stands beside the first of them.
  for (const [host, bytes] of carried) {
    const first = [...hosts].find(([name, { allowed }]) => allowed > 0 && name.startsWith(`${host}:`))
    if (first !== undefined) first[1].bytes = bytes
  }
  const ended = sandboxEffectiveSchema.shape.network.safeParse(
    (effective as { network?: unknown } | null)?.network,
  )
  // The end sums up by host, whatever the port was: it takes the place of what the log told.
  for (const { host } of [...(ended.data?.allowed ?? []), ...(ended.data?.denied ?? [])])
    for (const known of hosts.keys()) if (known.startsWith(`${named(host)}:`)) hosts.delete(known)
  for (const { host, connections, bytes, unreachable = 0 } of ended.data?.allowed ?? [])
    Object.assign(at(named(host)), {
      allowed: connections,
      bytes,
      ...(unreachable > 0 ? { unreachable } : {}),
    })
  for (const { host, connections, why } of ended.data?.denied ?? [])
    Object.assign(at(named(host)), { denied: connections, why })
  return [...hosts].map(([host, use]) => ({ host, ...use })).toSorted((a, b) => b.denied - a.denied)
}
