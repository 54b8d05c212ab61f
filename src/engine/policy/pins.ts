import { commonHost, parseHostPattern } from '../../shared/hosts.ts'
import type { NetworkPolicy } from '../base/contract.ts'
import { isInCidr, parseCidr } from '../base/networks.ts'

type Pins = NetworkPolicy['pins']

/** Of what a host pattern stands for, what a pin leads elsewhere; a network is one for addresses only. */
function ledOf(pin: string, allowed: string): string | undefined {
  if (!pin.includes('/')) return commonHost(pin, allowed)
  const network = parseCidr(pin)
  const address = parseHostPattern(allowed)?.host.replace(/^\[|\]$/g, '')
  return network !== null && address !== undefined && isInCidr(address, network) ? allowed : undefined
}

/** As the broker ranks them: a host before those below a wildcard, a port before all of them, anything before a network. */
function rankOf(pin: string): number {
  const pattern = parseHostPattern(pin)
  if (pattern === undefined) return 0
  return 1 + (pattern.host.startsWith('*.') ? 0 : 2) + (pattern.port === null ? 0 : 1)
}

/** A pin opens what it leads elsewhere: of one that stands for more than is allowed, what is allowed. */
export function pinsWithin(pins: Pins, allow: readonly string[]): Pins {
  const within = Object.entries(pins)
    .toSorted(([a], [b]) => rankOf(b) - rankOf(a))
    .flatMap(([pin, address]) =>
      allow.flatMap((allowed) => {
        const host = ledOf(pin, allowed)
        return host === undefined ? [] : [[host, address] as const]
      }),
    )
  // Of two for the same host the first counts.
  return Object.fromEntries(within.toReversed())
}
