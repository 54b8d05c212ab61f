import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { pour, sinkInto, whenEnded } from './dial.ts'
import { readUntil, type Read } from './reading.ts'

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
  const has = (wanted: string) =>
    headers.some((name, index) => index % 2 === 0 && name.toLowerCase() === wanted)
  const chunked = has('transfer-encoding')
  // What the head does not announce is no body to the server. (escape: request-smuggling)
  if (!chunked && !has('content-length')) return void request.resume()
  request.on('data', (chunk: Buffer) => {
    if (chunked) upstream.write(`${chunk.length.toString(16)}\r\n`)
    const more = upstream.write(chunk)
    if (chunked) upstream.write('\r\n')
    if (more) return
    request.pause()
    upstream.once('drain', () => request.resume())
  })
  request.once('end', () => {
    if (chunked) upstream.write('0\r\n\r\n')
  })
}

/** Reads heads until a final one; null when the server sent none, or none we can read. */
export async function readHead(upstream: Socket, method: string, timeoutMs: number): Promise<Head | null> {
  for (;;) {
    const head = await readUntil(upstream, (bytes) => parseHead(bytes, method), timeoutMs)
    if (head === null) return null
    if (head.status >= 200 || head.status === 101) return head.status > 999 ? null : head
  }
}

const unreadable: Head = { status: 1000, message: '', headers: [], length: null }

export function parseHead(bytes: Buffer, method: string): Read<Head> | null {
  const bad = { value: unreadable, used: bytes.length }
  const end = bytes.indexOf('\r\n\r\n')
  if (end === -1) return bytes.length > longestHead ? bad : null
  const [first = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n')
  const status = /^HTTP\/1\.[01] ([1-9][0-9]{2})(?: (.*))?$/.exec(first)
  if (status === null) return bad
  const headers: string[] = []
  let length: number | null = null
  let chunked = false
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon)
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
    used: end + 4,
  }
}

/** Passes a response on as it comes. Of known length, the program may go on using its connection. */
export function passResponse(head: Head, client: Socket, response: ServerResponse, upstream: Socket): void {
  if (head.length === null) {
    const headers = [...passedOn(head.headers), 'Connection', 'close']
    client.write(headText(`HTTP/1.1 ${head.status} ${head.message}`, headers), 'latin1')
    whenEnded(upstream, () => client.end())
    pour(upstream, sinkInto(client, upstream))
    return
  }
  response.writeHead(head.status, head.message, passedOn(head.headers))
  if (head.length === 0) {
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
    upstream.destroy()
    return false
  })
}
