import { z } from 'zod'

/**
 * Host patterns of contracts, configs and approvals: `example.com`, `example.com:443`, `*.example.org`.
 * A wildcard stands for one or more whole labels, never for part of one. (escape: egress-lookalike)
 */
export type HostPattern = {
  /** Lower case, without the trailing dot; with a leading `*.` for a wildcard. */
  readonly host: string
  /** Null: any port. */
  readonly port: number | null
}

/**
 * Where a rule says no port, or everything is open: what plain `connect()` programs use most (ssh, http, https, git). Not
 * 8080, the default of development servers: what is listened on for a host no server of the agent's can have.
 */
export const usualPorts: readonly number[] = [22, 80, 443, 8443, 9418]

/** `@npm` among allowed hosts stands for what the user's own npm is configured for, and so on. */
export const presetNames = ['npm', 'pip', 'cargo', 'go', 'maven', 'git', 'model'] as const
export type PresetName = (typeof presetNames)[number]

export const presetOf = (rule: string): PresetName | null =>
  presetNames.find((name) => rule === `@${name}`) ?? null

/** A preset and the hosts it stands for on this machine, as `--allow-host` takes them. */
export const presetExpansionSchema = z.object({
  rule: z.string(),
  hosts: z.array(z.string()),
  /** Where it leads too, and only the user's own pin can: a repository's remotes into the user's network. */
  left_out: z.array(z.string()).optional(),
  /** `NAME=VALUE`, or a file with every url in it: how tools inside learn of it. */
  told: z.array(z.string()).optional(),
})
export type PresetExpansion = z.infer<typeof presetExpansionSchema>

const label = '[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?'
const namePattern = new RegExp(`^${label}(?:\\.${label})*$`)
const ipv4Pattern = /^\d+\.\d+\.\d+\.\d+$/

const hostnameOf = (authority: string): string | undefined =>
  URL.canParse(`http://${authority}/`) ? new URL(`http://${authority}/`).hostname : undefined

/**
 * A name or IPv4 address in the one spelling that resolvers and the broker use: `bücher.example` as
 * `xn--bcher-kva.example`, `0x7f.1` as `127.0.0.1`. What ends in a number and is no address is no name either.
 */
function canonicalName(name: string): string | undefined {
  // What the URL parser would cut off or decode is no part of a name.
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u0020\u007f%/\\?#@<>^|[\]*:]/.test(name)) return undefined
  const host = hostnameOf(name)?.replace(/\.$/, '')
  return host !== undefined && host.length <= 253 && namePattern.test(host) ? host : undefined
}

/** `[V6]` in its one spelling; an IPv4 address inside it as that, since it dials the same machine. */
function canonicalIpv6(inner: string): string | undefined {
  const host = /^[0-9a-f:.]+$/.test(inner) ? hostnameOf(`[${inner}]`) : undefined
  const mapped = /^\[::ffff:([0-9a-f]+):([0-9a-f]+)\]$/.exec(host ?? '')
  if (mapped === null) return host
  const [high, low] = [parseInt(mapped[1] ?? '', 16), parseInt(mapped[2] ?? '', 16)]
  return [high >> 8, high & 255, low >> 8, low & 255].join('.')
}

/** Undefined for anything that is not a host pattern. The only reader of them: the broker's rules are made here too. */
export function parseHostPattern(text: string): HostPattern | undefined {
  const lower = text.trim().toLowerCase()
  const split = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(lower)
  const given = split === null ? `[${lower}]` : (split[1] ?? '')
  const port = split?.[2] === undefined ? null : Number(split[2])
  if (port !== null && (port < 1 || port > 65_535)) return undefined
  if (given.startsWith('[')) {
    const host = given.endsWith(']') ? canonicalIpv6(given.slice(1, -1)) : undefined
    return host === undefined ? undefined : { host, port }
  }
  const wildcard = given.startsWith('*.') ? '*.' : ''
  const name = canonicalName(given.slice(wildcard.length))
  // An address has no names below it.
  if (name === undefined || (wildcard !== '' && ipv4Pattern.test(name))) return undefined
  return { host: wildcard + name, port }
}

/** Why a text is no host pattern. Every host is a mode of outputs: as a rule it would make a list of a list no more. */
export const notAHost = (text: string): string =>
  text.trim() === '*'
    ? '* alone is no rule: every public host is the mode open, no host the mode none'
    : 'not a host: write example.com, example.com:443 or *.example.org'

export function formatHostPattern(pattern: HostPattern): string {
  return pattern.port === null ? pattern.host : `${pattern.host}:${pattern.port}`
}

/**
 * What a program wanted, as a rule names it: without the brackets an IPv6 address and its port would be another address.
 * Without a port where all it said was a name.
 */
export const showTarget = ({ host, port }: { readonly host: string; readonly port: number | null }): string =>
  `${/:.*:/.test(host) ? `[${host}]` : host}${port === null ? '' : `:${port}`}`

/** Whether everything `inner` stands for is also stood for by `outer`. */
export function hostCovers(outer: HostPattern, inner: HostPattern): boolean {
  if (outer.port !== null && outer.port !== inner.port) return false
  if (outer.host.startsWith('*.')) {
    const suffix = outer.host.slice(1)
    return inner.host.endsWith(suffix) && inner.host.length > suffix.length
  }
  return outer.host === inner.host
}

/** What is stood for by both; undefined: nothing. */
export function commonHost(a: string, b: string): string | undefined {
  const [one, other] = [parseHostPattern(a), parseHostPattern(b)]
  if (one === undefined || other === undefined) return undefined
  if (one.port !== null && other.port !== null && one.port !== other.port) return undefined
  const port = one.port ?? other.port
  if (hostCovers({ ...one, port: null }, { ...other, port: null }))
    return formatHostPattern({ ...other, port })
  return hostCovers({ ...other, port: null }, { ...one, port: null })
    ? formatHostPattern({ ...one, port })
    : undefined
}

/** Whether some host and port is stood for by both. */
export const hostsOverlap = (a: string, b: string): boolean => commonHost(a, b) !== undefined

/** Whether one of the patterns stands for `host` (itself a pattern). A text that is no pattern covers nothing. */
export function someHostCovers(patterns: readonly string[], host: string): boolean {
  const inner = parseHostPattern(host)
  if (inner === undefined) return false
  return patterns.some((text) => {
    const outer = parseHostPattern(text)
    return outer !== undefined && hostCovers(outer, inner)
  })
}

/** The ports that patterns name for `host`; none for one that has a port itself. */
export function portsOf(patterns: readonly string[], host: string): number[] {
  const inner = parseHostPattern(host)
  if (inner === undefined || inner.port !== null) return []
  const ports = patterns.flatMap((text) => {
    const outer = parseHostPattern(text)
    const isOfIt = outer !== undefined && hostCovers({ ...outer, port: null }, inner)
    return isOfIt && outer.port !== null ? [outer.port] : []
  })
  return [...new Set(ports)]
}

/** `ADDR:PORT` of a pin; undefined for anything else. */
export function parsePinAddress(text: string): { address: string; port: number } | undefined {
  const match = /^(\[[0-9a-fA-F:.]+\]|\d{1,3}(?:\.\d{1,3}){3}):\d{1,5}$/.exec(text)
  const pattern = match === null ? undefined : parseHostPattern(text)
  if (pattern === undefined || pattern.port === null) return undefined
  return { address: pattern.host.replace(/^\[|\]$/g, ''), port: pattern.port }
}
