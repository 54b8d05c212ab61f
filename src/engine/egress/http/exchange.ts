import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { ChunkEnd } from './chunks.ts'
import { pour, sinkInto, whenEnded } from '../dial/dial.ts'
import { readUntil, type Read } from '../line/reading.ts'
import { hangUp, isTorn, outliveWrites, reset, whenBroken } from '../dial/endings.ts'

/** One response's head. The body of `length` bytes follows; null: it goes on until the server ends. */
export type Head = {
  readonly status: number
  readonly message: string
  readonly headers: readonly string[]
  readonly length: number | null
}

const longestHead = 256 * 1024
const hopByHop = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'upgrade',
]

/** Where a message ends and whom it is for is not the client's to take off: its body would be the next request. */
const endToEnd = new Set(['content-length', 'transfer-encoding', 'host'])

/** Headers as pairs in one list, without those that speak of one connection only, and those named. */
export function passedOn(raw: readonly string[], without: readonly string[] = []): string[] {
  const dropped = new Set([...hopByHop, ...without.map((name) => name.toLowerCase())])
  eachHeader(raw, (name, value) => {
    if (name.toLowerCase() !== 'connection') return
    for (const token of value.split(',')) {
      const nominated = token.trim().toLowerCase()
      if (!endToEnd.has(nominated)) dropped.add(nominated)
    }
  })
  const kept: string[] = []
  eachHeader(raw, (name, value) => {
    if (!dropped.has(name.toLowerCase())) kept.push(name, value)
  })
  return kept
}

export function eachHeader(raw: readonly string[], visit: (name: string, value: string) => void): void {
  for (let at = 0; at + 1 < raw.length; at += 2) visit(raw[at] ?? '', raw[at + 1] ?? '')
}

export function headText(first: string, headers: readonly string[]): string {
  let text = `${first}\r\n`
  eachHeader(headers, (name, value) => (text += `${name}: ${value}\r\n`))
  return `${text}\r\n`
}

const has = (headers: readonly string[], wanted: string): boolean =>
  headers.some((name, index) => index % 2 === 0 && name.toLowerCase() === wanted)
const hasBody = (headers: readonly string[]): boolean =>
  has(headers, 'transfer-encoding') || has(headers, 'content-length')

/**
 * Sends one request on a connection of its own. The next request, if any, gets another connection and another
 * decision, so nothing behind this one can be taken for a second request by the server.
 */
export function sendRequest(
  request: IncomingMessage,
  path: string,
  headers: string[],
  upstream: Socket,
): void {
  // In the client's own version: an old one could not read a chunked answer.
  upstream.write(
    headText(`${request.method ?? 'GET'} ${path} HTTP/${request.httpVersion}`, headers),
    'latin1',
  )
  const chunked = has(headers, 'transfer-encoding')
  // What the head does not announce is no body to the server. (escape: request-smuggling)
  if (!hasBody(headers)) return void request.resume()
  const onData = (chunk: Buffer) => {
    if (chunked) upstream.write(`${chunk.length.toString(16)}\r\n`)
    const more = upstream.write(chunk)
    if (chunked) upstream.write('\r\n')
    if (more) return
    request.pause()
    upstream.once('drain', () => request.resume())
  }
  const onEnd = () => {
    if (chunked) upstream.write('0\r\n\r\n')
  }
  // The server has answered, or nobody will: what the program still sends is thrown away, or it would never read the answer.
  const stop = () => {
    request.off('data', onData).off('end', onEnd)
    request.resume()
  }
  outliveWrites(upstream, stop)
  upstream.once('close', stop)
  request.on('data', onData).once('end', onEnd)
}

/** Another coding of the body is one that the server may see the end of elsewhere. (escape: request-smuggling) */
export const isPlainCoding = (coding: string | undefined): boolean =>
  coding === undefined || coding.toLowerCase() === 'chunked'

export const readingMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])
/** What a proxy answers that has no way to the address. */
const undelivered = new Set([502, 503, 504])

/** Whether another address may be tried: nothing is done twice by it, and no body is gone by now. */
export function isForNext(request: IncomingMessage, headers: readonly string[], head: Head | null): boolean {
  if (!readingMethods.has(request.method ?? '') || hasBody(headers)) return false
  return head === null || head === unreadable || undelivered.has(head.status)
}

/** Reads heads until a final one; null when the server sent none. */
export async function readHead(upstream: Socket, method: string, timeoutMs: number): Promise<Head | null> {
  for (;;) {
    const head = await readUntil(upstream, (bytes) => parseHead(bytes, method), timeoutMs)
    if (head === null) return null
    if (head.status >= 200 || head.status === 101) return head
  }
}

/** In the place of an answer that is no HTTP. */
export const unreadable: Head = { status: 1000, message: '', headers: [], length: null }

/** Where a head ends, and where the body begins; null: not yet. */
function endOfHead(bytes: Buffer): readonly [number, number] | null {
  const [plain, proper] = [bytes.indexOf('\n\n'), bytes.indexOf('\n\r\n')]
  if (proper !== -1 && (plain === -1 || proper < plain)) return [proper, proper + 3]
  return plain === -1 ? null : [plain, plain + 2]
}

/**
 * Takes what RFC 9112 lets a reader take: lines that end in a line feed alone, folded ones, a space before the colon. What is
 * passed on is written anew.
 */
export function parseHead(bytes: Buffer, method: string): Read<Head> | null {
  const bad = { value: unreadable, used: bytes.length }
  const found = endOfHead(bytes)
  if (found === null) return bytes.length > longestHead ? bad : null
  const [end, used] = found
  const text = bytes.toString('latin1', 0, end).replace(/\r$/, '')
  const [first = '', ...lines] = text.replaceAll(/\r?\n[ \t]+/g, ' ').split(/\r?\n/)
  const status = /^HTTP\/1\.[01] ([1-9][0-9]{2})(?: (.*))?$/.exec(first)
  if (status === null) return bad
  const headers: string[] = []
  let length: number | null = null
  let chunked = false
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).trimEnd()
    const value = line.slice(colon + 1).trim()
    // oxlint-disable-next-line no-control-regex
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) || /[\0\r\n]/.test(value)) return bad
    headers.push(name, value)
    if (name.toLowerCase() === 'content-length') length = /^[0-9]{1,15}$/.test(value) ? Number(value) : null
    if (name.toLowerCase() === 'transfer-encoding') chunked = true
  }
  const code = Number(status[1])
  const empty = method === 'HEAD' || code < 200 || code === 204 || code === 304
  return {
    value: { status: code, message: status[2] ?? '', headers, length: empty ? 0 : chunked ? null : length },
    used,
  }
}

/** Passes a response on as it comes. Of known length, the program may go on using its connection. */
export function passResponse(head: Head, client: Socket, response: ServerResponse, upstream: Socket): void {
  const whole = whenBroken(upstream, () => reset(client))
  if (head.length === null) {
    const headers = [...passedOn(head.headers), 'Connection', 'close']
    client.write(headText(`HTTP/1.1 ${head.status} ${head.message}`, headers), 'latin1')
    whenEnded(upstream, () => (isTorn(upstream) ? upstream.destroy() : client.end()))
    const endIn = endOf(head)
    const sink = sinkInto(client, upstream)
    pour(upstream, (bytes) => {
      const end = endIn(bytes)
      if (end === null) return sink(bytes)
      whole()
      client.end(Buffer.from(bytes.subarray(0, end)))
      upstream.destroy()
      return false
    })
    return
  }
  response.writeHead(head.status, head.message, passedOn(head.headers))
  if (head.length === 0) {
    whole()
    response.end()
    upstream.destroy()
    return
  }
  let left = head.length
  const sink = sinkInto(response, upstream)
  const onEnd = () => response.destroy()
  whenEnded(upstream, onEnd)
  pour(upstream, (bytes) => {
    if (bytes.length < left) {
      left -= bytes.length
      return sink(bytes)
    }
    // The buffer is used again once we are back; what is not written by then needs a copy.
    response.end(Buffer.from(bytes.subarray(0, left)))
    upstream.off('end', onEnd)
    whole()
    upstream.destroy()
    return false
  })
}

/** Passes a server's no to an upgrade on and hangs up where it ends: the server was not told that it is the last. */
export function passRefusal(head: Head, client: Socket, upstream: Socket): void {
  const headers = [...passedOn(head.headers), 'Connection', 'close']
  client.write(headText(`HTTP/1.1 ${head.status} ${head.message}`, headers), 'latin1')
  const whole = whenBroken(upstream, () => reset(client))
  const finish = (last: Buffer) => {
    whole()
    hangUp(client, last)
    upstream.destroy()
  }
  if (head.length === 0) return finish(Buffer.alloc(0))
  whenEnded(upstream, () => client.end())
  const endIn = endOf(head)
  const sink = sinkInto(client, upstream)
  pour(upstream, (bytes) => {
    const end = endIn(bytes)
    if (end === null) return sink(bytes)
    finish(Buffer.from(bytes.subarray(0, end)))
    return false
  })
}

function endOf({ headers, length }: Head): (bytes: Buffer) => number | null {
  const chunks = new ChunkEnd()
  if (length === null) return has(headers, 'transfer-encoding') ? (bytes) => chunks.find(bytes) : () => null
  let left = length
  return (bytes) => {
    const end = bytes.length < left ? null : left
    left -= bytes.length
    return end
  }
}
