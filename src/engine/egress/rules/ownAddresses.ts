import { readFile } from 'node:fs/promises'
import { ownInterfaces, type Interface } from './addresses.ts'
import { attachedNetworks, ipv4LinkRoutes, ipv6LinkRoutes } from './attachedNetworks.ts'

const freshMs = 1000
// Of a route: "this machine", and "any of several, of which this machine is one".
const local = 0x80000000
const anycast = 0x00100000

/** The routes of `/proc/net/fib_trie` that end at this machine, of every table. */
export function localIpv4Routes(trie: string): Interface[] {
  const found = new Map<string, Interface>()
  let at = ''
  for (const line of trie.split('\n')) {
    at = /\|-- ([\d.]+)/.exec(line)?.[1] ?? at
    const length = /^\s+\/(\d+) \w+ LOCAL/.exec(line)?.[1]
    if (length !== undefined)
      found.set(`${at}/${length}`, { address: at, cidr: `${at}/${length}`, local: true })
  }
  return [...found.values()]
}

/** The same of `/proc/net/ipv6_route`. */
export function localIpv6Routes(routes: string): Interface[] {
  return routes.split('\n').flatMap((line) => {
    const [to = '', length = '', ...rest] = line.split(/\s+/)
    if (to.length !== 32 || (parseInt(rest[6] ?? '', 16) & (local | anycast)) === 0) return []
    const address = to.match(/.{4}/g)?.join(':') ?? ''
    return [{ address, cidr: `${address}/${parseInt(length, 16)}`, local: true as const }]
  })
}

const textOf = (path: string) => readFile(path, 'latin1').catch(() => '')

async function read(): Promise<readonly Interface[]> {
  const files = ['/proc/net/fib_trie', '/proc/net/route', '/proc/net/ipv6_route'] as const
  const [trie = '', ipv4Routes = '', ipv6Routes = ''] = await Promise.all(files.map(textOf))
  const own = [...ownInterfaces(), ...localIpv4Routes(trie), ...localIpv6Routes(ipv6Routes)]
  const linked = [...ipv4LinkRoutes(ipv4Routes), ...ipv6LinkRoutes(ipv6Routes)]
  return [...own, ...(await attachedNetworks(linked, own))]
}

let last: { readonly at: number; readonly found: Promise<readonly Interface[]> } | undefined

/**
 * All that leads to this machine, and the networks it is on. Node leaves out interfaces without a carrier and knows no
 * routes: a service here would be reached by such an address. (escape: own-interface)
 */
export function ownAddresses(): Promise<readonly Interface[]> {
  const now = performance.now()
  if (last === undefined || now - last.at > freshMs) last = { at: now, found: read() }
  return last.found
}
