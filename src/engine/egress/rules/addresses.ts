import { BlockList, isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import { addSubnet, blockListOf, isInCidr, parseCidr } from '../../base/networks.ts'
import { ipv4OfGroups, ipv6Groups, mappedIpv4 } from './names.ts'

type Named = readonly [name: string, subnets: readonly string[]]

/** What a public name must never lead to. Everything here is reachable only through a pin. */
const refusedIpv4: readonly Named[] = [
  ['loopback', ['127.0.0.0/8']],
  // Those outside 169.254 look like others, and are a cloud's own service at every machine in it.
  ['link-local or metadata', ['169.254.0.0/16', '168.63.129.16/32', '100.100.100.200/32', '192.0.0.192/32']],
  ['private', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10']],
  ['unspecified', ['0.0.0.0/8']],
  ['multicast or broadcast', ['224.0.0.0/4', '255.255.255.255/32']],
  [
    'reserved',
    [
      '192.0.0.0/24',
      '192.0.2.0/24',
      '192.31.196.0/24',
      '192.52.193.0/24',
      '192.88.99.0/24',
      '192.175.48.0/24',
      '198.18.0.0/15',
      '198.51.100.0/24',
      '203.0.113.0/24',
      '240.0.0.0/4',
    ],
  ],
]
const refusedIpv6: readonly Named[] = [
  ['loopback', ['::1/128']],
  ['unspecified', ['::/128']],
  ['link-local', ['fe80::/10']],
  ['metadata', ['fd00:ec2::254/128', 'fd20:ce::254/128', 'fd00:42::42/128']],
  ['private', ['fc00::/7', 'fec0::/10']],
  ['multicast', ['ff00::/8']],
  // Teredo and 6to4 carry an IPv4 address that a gateway of the LAN would dial.
  ['tunnelled', ['2001::/32', '2002::/16']],
  ['reserved', ['2001:2::/48', '2001:10::/28', '2001:20::/28', '2001:db8::/32', '3fff::/20']],
]

const build = (families: readonly Named[]) =>
  families.map(([name, subnets]) => {
    const list = new BlockList()
    for (const subnet of subnets) addSubnet(list, subnet)
    return { name, list }
  })
const ipv4Lists = build(refusedIpv4)
const ipv6Lists = build(refusedIpv6)
const globalUnicast = blockListOf('2000::/3')

export type Interface = {
  /** Null: a network this machine is on, by whatever address. */
  readonly address: string | null
  readonly cidr: string | null
  /** The whole network is this machine itself. */
  readonly local?: true
}

export function ownInterfaces(): readonly (Interface & { readonly address: string })[] {
  return Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .map(({ address, cidr }) => ({ address: address.split('%')[0] ?? address, cidr }))
}

/**
 * Why an address that a name resolved to must not be dialled, or null. Looks through mapped and NAT64 forms
 * and knows this machine's own addresses and on-link networks, which may well be public ones.
 * (escape: egress-rebinding, egress-metadata-address, egress-mapped-address, own-interface)
 */
export function refusedAddress(address: string, own: readonly Interface[] = ownInterfaces()): string | null {
  const family = isIP(address)
  if (family === 0) return 'not an address'
  if (family === 4) return refusedAmong(ipv4Lists, address, 'ipv4') ?? ownAddress(address, own)
  const mapped = mappedIpv4(address)
  if (mapped !== null) return refusedAddress(mapped, own)
  const groups = ipv6Groups(address)
  if (groups === null) return 'not an address'
  if (isNat64(groups)) {
    const why = refusedAddress(ipv4OfGroups(groups), own)
    return why === null ? null : `${why} (behind NAT64)`
  }
  const why = refusedAmong(ipv6Lists, address, 'ipv6')
  if (why !== null) return why
  if (!globalUnicast.check(address, 'ipv6')) return 'not a public address'
  return ownAddress(address, own)
}

/**
 * This machine itself, or what every machine of a cloud or a cable has at the same place: no preset opens that, whoever
 * names it. (escape: preset-metadata)
 */
export function isOnlyForPins(address: string, own: readonly Interface[] = ownInterfaces()): boolean {
  const plain = mappedIpv4(address) ?? nat64Ipv4(address) ?? address
  if (own.some((one) => isItself(plain, one))) return true
  return /^(loopback|link-local|metadata|unspecified|multicast)/.test(refusedAddress(plain, []) ?? '')
}

function refusedAmong(
  lists: readonly { name: string; list: BlockList }[],
  address: string,
  family: 'ipv4' | 'ipv6',
): string | null {
  const hit = lists.find(({ list }) => list.check(address, family))
  return hit === undefined ? null : `${hit.name} address`
}

/** The well-known prefix 64:ff9b::/96; the local-use one (64:ff9b:1::/48) is not public and falls through. */
function isNat64(groups: readonly number[]): boolean {
  return groups[0] === 0x64 && groups[1] === 0xff9b && groups.slice(2, 6).every((group) => group === 0)
}

/** The IPv4 address that a NAT64 gateway would dial. */
export function nat64Ipv4(address: string): string | null {
  const groups = ipv6Groups(address)
  return groups !== null && isNat64(groups) ? ipv4OfGroups(groups) : null
}

const isBeside = (address: string, { cidr }: Interface): boolean =>
  cidr !== null &&
  parseCidr(cidr) !== null &&
  !cidr.endsWith('/0') &&
  isIP(cidr.split('/')[0] ?? '') === isIP(address) &&
  isInCidr(address, cidr)

const isItself = (address: string, one: Interface): boolean =>
  one.address === address || (one.local === true && isBeside(address, one))

function ownAddress(address: string, own: readonly Interface[]): string | null {
  if (own.some((one) => isItself(address, one))) return "this machine's own address"
  return own.some((one) => isBeside(address, one)) ? 'address of the local network' : null
}
