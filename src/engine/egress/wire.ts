import type { HostAlias } from '../base/sandbox.ts'
import type { Read } from './reading.ts'

/**
 * Between relay and broker: one unix connection per tunnel, one line that says what the relay accepted, then
 * the bytes as they are. The kernel does flow control, and a tunnel that stalls stalls nobody else. The line
 * is no credential: whoever holds the socket may ask for anything and gets what the sandbox's policy allows.
 */
export type Opening =
  /** A program speaks HTTP or SOCKS5 to the proxy port. */
  | { readonly kind: 'proxy' }
  /** A program connected to the relay address of a host. */
  | { readonly kind: 'alias'; readonly host: string; readonly port: number }

/** What names a listener between relay and broker. */
export const proxyKey = 'proxy'
export const listenerKeys = ({ address, ports }: HostAlias): string[] =>
  ports.map((port) => `${address}:${port}`)

const longest = 400

export function encodeOpening(opening: Opening): string {
  return opening.kind === 'proxy' ? 'proxy\n' : `alias ${opening.host} ${opening.port}\n`
}

export function parseOpening(line: string): Opening | null {
  if (line === 'proxy') return { kind: 'proxy' }
  const match = /^alias ([^ ]{1,255}) ([0-9]{1,5})$/.exec(line)
  return match === null ? null : { kind: 'alias', host: match[1] ?? '', port: Number(match[2]) }
}

/** The first line of a connection; null inside: the line is no opening. */
export function readLine(bytes: Buffer): Read<Opening | null> | null {
  const end = bytes.subarray(0, longest).indexOf(10)
  if (end === -1) return bytes.length < longest ? null : { value: null, used: longest }
  return { value: parseOpening(bytes.toString('latin1', 0, end)), used: end + 1 }
}
