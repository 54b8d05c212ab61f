import type { HostAlias } from '../../base/sandbox.ts'
import type { Read } from './reading.ts'

/**
 * Between relay and broker: one unix connection per tunnel, one line that says what the relay accepted, then
 * the bytes as they are. The kernel does flow control, and a tunnel that stalls stalls nobody else. The line
 * is no credential: whoever holds the socket may ask for anything and gets what the sandbox's policy allows.
 */
export type Opening =
  /** A program speaks HTTP or SOCKS5 to the proxy port. */
  (
    | { readonly kind: 'proxy' }
    /** A program connected to the relay address of a host. */
    | { readonly kind: 'alias'; readonly host: string; readonly port: number }
    /** Questions for names follow, each behind its length, as programs send them over TCP. */
    | { readonly kind: 'names' }
    /** A relay that carries connections wants to be told what to listen on: orders follow, one a line. */
    | { readonly kind: 'orders' }
  ) & {
    /** By what the broker names it when the program's own connection is to be reset: between the two there is no such thing. */
    readonly id?: string
  }

/** What names a listener between relay and broker. */
export const proxyKey = 'proxy'
/** Those that answer questions for names: datagrams and connections. */
export const nameKeys = { datagrams: 'names udp', connections: 'names tcp' } as const
const lastingKeys: ReadonlySet<string> = new Set([proxyKey, ...Object.values(nameKeys)])
/** Whether a listener stays whatever hosts come and go. */
export const isLasting = (key: string): boolean => lastingKeys.has(key)
const keysAt = (address: string, ports: readonly number[]) => ports.map((port) => `${address}:${port}`)
/** Those that lead out. */
export const openKeys = ({ address, ports }: HostAlias): string[] => keysAt(address, ports)
export const listenerKeys = ({ address, ports, laterPorts = [] }: HostAlias): string[] =>
  keysAt(address, [...ports, ...laterPorts])

/** What the broker tells a relay; `hosts`: these and no others, beside those it was told to listen for one by one. */
export type Order =
  | { readonly listen: HostAlias }
  | { readonly forget: HostAlias }
  | { readonly hosts: readonly HostAlias[] }
  /** The connection it carries under that name is broken off. */
  | { readonly reset: string }

/** A question for a name that a relay took before its socket was the broker's. */
export type PassedQuestion = { readonly message: string; readonly address: string; readonly port: number }

const longest = 400

export function encodeOpening(opening: Opening): string {
  const what = opening.kind === 'alias' ? `alias ${opening.host} ${opening.port}` : opening.kind
  return opening.id === undefined ? `${what}\n` : `${what} #${opening.id}\n`
}

export function parseOpening(line: string): Opening | null {
  const match = /^(?:(proxy|names|orders)|alias ([^ ]{1,255}) ([0-9]{1,5}))(?: #([0-9a-f-]{1,36}))?$/.exec(
    line,
  )
  if (match === null) return null
  const [, kind, host = '', port, id] = match
  const named = id === undefined ? {} : { id }
  return kind === undefined
    ? { kind: 'alias', host, port: Number(port), ...named }
    : { kind: kind as 'proxy' | 'names' | 'orders', ...named }
}

/** The first line of a connection; null inside: the line is no opening. */
export function readLine(bytes: Buffer): Read<Opening | null> | null {
  const end = bytes.subarray(0, longest).indexOf(10)
  if (end === -1) return bytes.length < longest ? null : { value: null, used: longest }
  return { value: parseOpening(bytes.toString('latin1', 0, end)), used: end + 1 }
}
