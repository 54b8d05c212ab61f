import { normaliseHost, type Target } from '../rules/names.ts'
import type { Read } from '../line/reading.ts'

/** SOCKS5 (RFC 1928), the part programs use: no authentication, CONNECT only. */
export type SocksRequest =
  { readonly kind: 'connect'; readonly target: Target } | { readonly kind: 'bad'; readonly reply: number }

export const socksReply = {
  ok: 0,
  failure: 1,
  refused: 2,
  unreachable: 4,
  connectionRefused: 5,
  badCommand: 7,
  badAddress: 8,
} as const

/** The greeting; true where the client can do without authentication. */
export function parseGreeting(bytes: Buffer): Read<boolean> | null {
  const end = 2 + (bytes[1] ?? 0)
  if (bytes.length < 2 || bytes.length < end) return null
  return { value: bytes[0] === 5 && bytes.subarray(2, end).includes(0), used: end }
}

export function parseRequest(bytes: Buffer): Read<SocksRequest> | null {
  const bad = (reply: number) => ({ value: { kind: 'bad', reply } as const, used: bytes.length })
  if (bytes.length < 5) return null
  if (bytes[0] !== 5 || bytes[2] !== 0) return bad(socksReply.failure)
  if (bytes[1] !== 1) return bad(socksReply.badCommand)
  const type = bytes[3] ?? 0
  const length = type === 1 ? 4 : type === 4 ? 16 : type === 3 ? (bytes[4] ?? 0) : 0
  if (length === 0) return bad(socksReply.badAddress)
  const start = type === 3 ? 5 : 4
  const end = start + length
  if (bytes.length < end + 2) return null
  const host = normaliseHost(hostText(type, bytes.subarray(start, end)))
  const port = bytes.readUInt16BE(end)
  if (host === null || port === 0) return bad(socksReply.badAddress)
  return { value: { kind: 'connect', target: { host, port } }, used: end + 2 }
}

function hostText(type: number, bytes: Buffer): string {
  if (type === 1) return bytes.join('.')
  if (type === 3) return bytes.toString('utf8')
  const groups = Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(index * 2).toString(16))
  return `[${groups.join(':')}]`
}

/** SOCKS4 and 4a: the host or address it asks for. It is always refused, but in its own words. */
export function parseOldRequest(bytes: Buffer): Read<Target | null> | null {
  const bad = { value: null, used: bytes.length }
  const endOf = (from: number) => bytes.subarray(0, longestOld).indexOf(0, from)
  const user = bytes.length < 9 ? -1 : endOf(8)
  if (user === -1) return bytes.length < longestOld ? null : bad
  const isNamed = bytes[4] === 0 && bytes[5] === 0 && bytes[6] === 0 && bytes[7] !== 0
  const name = isNamed ? endOf(user + 1) : user
  if (name === -1) return bytes.length < longestOld ? null : bad
  const host = normaliseHost(
    isNamed ? bytes.toString('utf8', user + 1, name) : bytes.subarray(4, 8).join('.'),
  )
  const port = bytes.readUInt16BE(2)
  return { value: host === null || port === 0 ? null : { host, port }, used: name + 1 }
}
const longestOld = 600

/** "Rejected or failed"; SOCKS4 knows no other refusal. */
export const oldRefusal = Buffer.from([0, 0x5b, 0, 0, 0, 0, 0, 0])

export function encodeReply(code: number): Buffer {
  return Buffer.from([5, code, 0, 1, 0, 0, 0, 0, 0, 0])
}
