import { readFile } from 'node:fs/promises'
import { endianness } from 'node:os'
import { join } from 'node:path'
import { isInCidr } from '../../base/networks.ts'
import type { Interface } from './addresses.ts'

// Of a route: "through a router", and "refused".
const gateway = 0x2
const reject = 0x200
// Of a device.
const broadcast = 0x2
const loopback = 0x8
const pointToPoint = 0x10
// A VPN says "everything" as 0.0.0.0/1 and 128.0.0.0/1, or 2000::/3: so much is a way out and no cable.
const shortest = { 4: 8, 6: 32 } as const

/** A route whose addresses are reached without a router. */
export type LinkRoute = { readonly device: string; readonly cidr: string }

/** Those of `/proc/net/route`. */
export function ipv4LinkRoutes(text: string): LinkRoute[] {
  return text.split('\n').flatMap((line) => {
    const [device = '', to = '', , flags = '', , , , mask = ''] = line.trim().split(/\s+/)
    if (!/^[0-9a-f]{8}$/i.test(to) || !isDirect(flags)) return []
    const length = bytesOf(mask).reduce((sum, byte) => sum + byte.toString(2).replaceAll('0', '').length, 0)
    return length < shortest[4] ? [] : [{ device, cidr: `${bytesOf(to).join('.')}/${length}` }]
  })
}

/** Those of `/proc/net/ipv6_route`. */
export function ipv6LinkRoutes(text: string): LinkRoute[] {
  return text.split('\n').flatMap((line) => {
    const [to = '', hexLength = '', , , , , , , flags = '', device = ''] = line.trim().split(/\s+/)
    const length = parseInt(hexLength, 16)
    if (to.length !== 32 || !isDirect(flags) || length < shortest[6]) return []
    return [{ device, cidr: `${to.match(/.{4}/g)?.join(':') ?? ''}/${length}` }]
  })
}

const isDirect = (flags: string): boolean => (parseInt(flags, 16) & (gateway | reject)) === 0

/** The kernel prints an address as the number that its bytes are on this machine. */
function bytesOf(hex: string): number[] {
  const bytes = [...Buffer.from(hex, 'hex')]
  return endianness() === 'LE' ? bytes.reverse() : bytes
}

/**
 * The networks this machine is on, whatever their numbers: what a cable leads to, and what lies beside an own address. A
 * tunnel's other routes are not: they say which part of the internet goes through it. (escape: on-link-network)
 */
export async function attachedNetworks(
  routes: readonly LinkRoute[],
  own: readonly Interface[],
): Promise<Interface[]> {
  const devices = [...new Set(routes.map(({ device }) => device))]
  const cables = new Set((await Promise.all(devices.map(cableOf))).flat())
  return routes
    .filter(
      ({ device, cidr }) =>
        cables.has(device) || own.some(({ address }) => address !== null && isInCidr(address, cidr)),
    )
    .map(({ cidr }) => ({ address: null, cidr }))
}

/** A device that nothing is known of counts as a cable: better refused than reached. */
async function cableOf(device: string): Promise<string[]> {
  const text = await readFile(join('/sys/class/net', device, 'flags'), 'latin1').catch(() => null)
  const flags = text === null ? broadcast : Number(text)
  return (flags & broadcast) !== 0 && (flags & (loopback | pointToPoint)) === 0 ? [device] : []
}
