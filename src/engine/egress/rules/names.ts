import { isIP, isIPv6 } from 'node:net'

export { showTarget } from '../../../shared/hosts.ts'

const hostPattern = /^[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$/

/**
 * One spelling for every name, or null for what is no host name at all. Rules and targets both go through
 * here, so that case, a trailing dot, IDN, full-width digits, octal or hexadecimal IPv4 and mapped IPv6 cannot
 * tell the matcher one thing and the resolver another. (escape: egress-numeric-host, egress-spelling)
 */
export function normaliseHost(text: string): string | null {
  if (text.length === 0 || text.length > 255) return null
  if (text.startsWith('[') && text.endsWith(']')) return normaliseIpv6(text.slice(1, -1))
  if (text.includes(':')) return normaliseIpv6(text)
  // The URL parser would decode "%61", cut at "/" and "?" and take "user@" off: refuse them before it sees them.
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u0020\u007f%/\\?#@<>^|[\]*]/.test(text)) return null
  const url = URL.parse(`http://${text}/`)
  if (url === null) return null
  const host = url.hostname.endsWith('.') ? url.hostname.slice(0, -1) : url.hostname
  return host.length <= 253 && hostPattern.test(host) ? host : null
}

/**
 * The same of a name that goes on to the server as it stands. Letters we would spell otherwise are refused there: the
 * server reads them as it likes, and not as the name that was allowed. (escape: domain-fronting)
 */
export const normaliseSent = (text: string): string | null =>
  /^[\x21-\x7e]+$/.test(text) ? normaliseHost(text) : null

function normaliseIpv6(text: string): string | null {
  // A zone ("fe80::1%eth0") names an interface of ours.
  if (!isIPv6(text) || text.includes('%')) return null
  const canonical = URL.parse(`http://[${text}]/`)?.hostname.slice(1, -1)
  if (canonical === undefined) return null
  return mappedIpv4(canonical) ?? canonical
}

/** The IPv4 address inside `::ffff:a.b.c.d`, which dials the same machine. */
export function mappedIpv4(address: string): string | null {
  const groups = ipv6Groups(address)
  if (groups === null) return null
  if (groups.slice(0, 5).some((group) => group !== 0) || groups[5] !== 0xffff) return null
  return ipv4OfGroups(groups)
}

export function ipv4OfGroups(groups: readonly number[]): string {
  const [high = 0, low = 0] = groups.slice(6)
  return [high >> 8, high & 255, low >> 8, low & 255].join('.')
}

/** The eight 16-bit groups of an IPv6 address. */
export function ipv6Groups(address: string): readonly number[] | null {
  if (!isIPv6(address) || address.includes('%')) return null
  const canonical = URL.parse(`http://[${address}]/`)?.hostname.slice(1, -1)
  if (canonical === undefined) return null
  const [head = '', tail] = canonical.split('::')
  const parse = (part: string) => (part === '' ? [] : part.split(':').map((group) => parseInt(group, 16)))
  if (tail === undefined) return parse(head)
  const before = parse(head)
  const after = parse(tail)
  return [...before, ...Array.from({ length: 8 - before.length - after.length }, () => 0), ...after]
}

export function parsePort(text: string): number | null {
  if (!/^[0-9]{1,5}$/.test(text)) return null
  const port = Number(text)
  return port >= 1 && port <= 65535 ? port : null
}

export type Target = { readonly host: string; readonly port: number }
/** What a program wanted; without a port where all it said was a name. */
export type Wanted = { readonly host: string; readonly port: number | null }

/** `HOST`, `HOST:PORT`, `[V6]`, `[V6]:PORT`, split but not normalised; port null where none was given. */
export function splitHostPort(text: string): { host: string; port: number | null } | null {
  const bracket = /^(\[[^\]]*\])(?::(.*))?$/.exec(text)
  if (bracket !== null) return withPort(bracket[1] ?? '', bracket[2])
  if (isIP(text) === 6) return { host: text, port: null }
  const parts = text.split(':')
  return parts.length > 2 ? null : withPort(parts[0] ?? '', parts[1])
}

function withPort(host: string, port: string | undefined): { host: string; port: number | null } | null {
  if (port === undefined) return { host, port: null }
  const number = parsePort(port)
  return number === null ? null : { host, port: number }
}

/** The `host:port` of a CONNECT line or a Host header, normalised. */
export function parseAuthority(
  text: string,
  defaultPort: number | null,
  normalise: typeof normaliseHost = normaliseHost,
): Target | null {
  const split = splitHostPort(text)
  if (split === null) return null
  const host = normalise(split.host)
  const port = split.port ?? defaultPort
  return host === null || port === null ? null : { host, port }
}
