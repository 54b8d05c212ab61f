import { z } from 'zod'

/**
 * Host patterns of contracts, configs and approvals: `example.com`, `example.com:443`, `*.example.org`, `*`.
 * A wildcard stands for one or more whole labels, never for part of one. (escape: notexample.com)
 */
export type HostPattern = {
  /** Lower case, without the trailing dot; with a leading `*.` for a wildcard, `*` for any host. */
  readonly host: string
  /** Null: any port. */
  readonly port: number | null
}

/** `@npm` among allowed hosts stands for what the user's own npm is configured for, and so on. */
export const presetNames = ['npm', 'pip', 'cargo', 'go', 'maven', 'git', 'model'] as const
export type PresetName = (typeof presetNames)[number]

export const presetOf = (rule: string): PresetName | null =>
  presetNames.find((name) => rule === `@${name}`) ?? null

/** A preset and the hosts it stands for on this machine, as `--allow-host` takes them. */
export const presetExpansionSchema = z.object({ rule: z.string(), hosts: z.array(z.string()) })
export type PresetExpansion = z.infer<typeof presetExpansionSchema>

const label = '[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?'
const namePattern = new RegExp(`^(?:\\*|(?:\\*\\.)?${label}(?:\\.${label})*)$`)
const addressPattern = /^\[([0-9a-f:.]+)\]$/

/** An international name in the spelling that resolvers and the broker use: `bücher.example` as `xn--bcher-kva.example`. */
function inAscii(host: string): string | undefined {
  // oxlint-disable-next-line no-control-regex
  if (/^[\u0000-\u007f]*$/.test(host)) return host
  const wildcard = host.startsWith('*.') ? '*.' : ''
  const name = host.slice(wildcard.length)
  // What the URL parser would cut off or decode is no part of a name.
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u0020\u007f%/\\?#@<>^|[\]*]/.test(name)) return undefined
  const url = URL.canParse(`http://${name}/`) ? new URL(`http://${name}/`) : undefined
  return url === undefined ? undefined : wildcard + url.hostname.replace(/\.$/, '')
}

/** Undefined for anything that is not a host pattern. */
export function parseHostPattern(text: string): HostPattern | undefined {
  const lower = text.trim().toLowerCase()
  const split = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(lower)
  if (split === null) return undefined
  const host = inAscii((split[1] ?? '').replace(/[.\u3002]$/, ''))
  if (host === undefined) return undefined
  const port = split[2] === undefined ? null : Number(split[2])
  if (port !== null && (port < 1 || port > 65_535 || host === '*')) return undefined
  if (host.length > 253 || !(namePattern.test(host) || addressPattern.test(host))) return undefined
  return { host, port }
}

export function formatHostPattern(pattern: HostPattern): string {
  return pattern.port === null ? pattern.host : `${pattern.host}:${pattern.port}`
}

/** Whether everything `inner` stands for is also stood for by `outer`. */
export function hostCovers(outer: HostPattern, inner: HostPattern): boolean {
  if (outer.port !== null && outer.port !== inner.port) return false
  if (outer.host === '*') return true
  if (outer.host.startsWith('*.')) {
    const suffix = outer.host.slice(1)
    return inner.host.endsWith(suffix) && inner.host.length > suffix.length
  }
  return outer.host === inner.host
}

/** Whether one of the patterns stands for `host` (itself a pattern). A text that is no pattern covers nothing. */
export function someHostCovers(patterns: readonly string[], host: string): boolean {
  const inner = parseHostPattern(host)
  if (inner === undefined) return false
  return patterns.some((text) => {
    const outer = parseHostPattern(text)
    return outer !== undefined && hostCovers(outer, inner)
  })
}

/** `ADDR:PORT` of a pin; undefined for anything else. */
export function parsePinAddress(text: string): { address: string; port: number } | undefined {
  const match = /^(\[[0-9a-fA-F:.]+\]|\d{1,3}(?:\.\d{1,3}){3}|localhost):(\d{1,5})$/.exec(text)
  if (match === null) return undefined
  const port = Number(match[2])
  if (port < 1 || port > 65_535) return undefined
  const address = (match[1] ?? '').replace(/^\[|\]$/g, '')
  if (/^\d/.test(address) && !address.includes(':')) {
    if (address.split('.').some((part) => Number(part) > 255)) return undefined
  }
  return { address: address === 'localhost' ? '127.0.0.1' : address, port }
}
