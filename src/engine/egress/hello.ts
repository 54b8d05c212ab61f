/** What the first bytes of a client say about the protocol inside a tunnel. */
export type Peeked =
  | { readonly kind: 'more' }
  | { readonly kind: 'tls'; readonly serverName: string | null }
  | { readonly kind: 'http' }
  | { readonly kind: 'other' }
  /** Pretends to be TLS and is not: cut, because a server more lenient than we are could read another name. */
  | { readonly kind: 'broken' }

const longestHello = 64 * 1024
const longestLine = 16 * 1024
const requestLine = /^[A-Z]{3,20} [\x21-\x7e]+ HTTP\/1\.[01]\r?$/

export function peek(bytes: Buffer): Peeked {
  if (bytes.length === 0) return { kind: 'more' }
  return bytes[0] === 0x16 ? peekTls(bytes) : peekHttp(bytes)
}

function peekHttp(bytes: Buffer): Peeked {
  const end = bytes.indexOf(10)
  const line = bytes.subarray(0, end === -1 ? bytes.length : end)
  if (!/^[\x20-\x7e]*\r?$/.test(line.toString('latin1'))) return { kind: 'other' }
  if (end === -1) {
    // Only what may still become a request line is held back.
    const mayBecome = line.length < longestLine && /^[A-Z]{0,20}( |$)/.test(line.toString('latin1', 0, 21))
    return { kind: mayBecome ? 'more' : 'other' }
  }
  return { kind: requestLine.test(line.toString('latin1')) ? 'http' : 'other' }
}

/** Takes the handshake message out of its records, which may split it anywhere. */
function peekTls(bytes: Buffer): Peeked {
  const parts: Buffer[] = []
  let length = 0
  let at = 0
  while (at + 5 <= bytes.length) {
    if (bytes[at] !== 0x16 || bytes[at + 1] !== 3) return { kind: 'broken' }
    const size = bytes.readUInt16BE(at + 3)
    if (size === 0 || size > 16384 + 256) return { kind: 'broken' }
    const part = bytes.subarray(at + 5, at + 5 + size)
    parts.push(part)
    length += part.length
    if (length >= 4) {
      const message = Buffer.concat(parts)
      if (message[0] !== 1) return { kind: 'broken' }
      const body = message.readUIntBE(1, 3)
      if (body > longestHello) return { kind: 'broken' }
      if (length >= 4 + body) return serverNameOf(message.subarray(4, 4 + body))
    }
    at += 5 + size
  }
  return bytes.length > 2 * longestHello ? { kind: 'broken' } : { kind: 'more' }
}

function serverNameOf(body: Buffer): Peeked {
  try {
    const reader = new Reader(body)
    reader.skip(2 + 32)
    reader.block(1)
    reader.block(2)
    reader.block(1)
    if (reader.atEnd) return { kind: 'tls', serverName: null }
    const extensions = new Reader(reader.block(2))
    let found: string | null = null
    while (!extensions.atEnd) {
      const type = extensions.number(2)
      const data = extensions.block(2)
      if (type !== 0) continue
      // Two names, or one repeated: which of them the server heeds is anyone's guess.
      if (found !== null) return { kind: 'broken' }
      const names = new Reader(new Reader(data).block(2))
      if (names.number(1) !== 0) return { kind: 'broken' }
      found = names.block(2).toString('latin1')
      if (!names.atEnd || found === '') return { kind: 'broken' }
    }
    return { kind: 'tls', serverName: found }
  } catch {
    return { kind: 'broken' }
  }
}

class Reader {
  #at = 0
  readonly #bytes: Buffer
  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }
  get atEnd(): boolean {
    return this.#at >= this.#bytes.length
  }
  skip(count: number): void {
    this.#take(count)
  }
  number(size: number): number {
    return this.#take(size).readUIntBE(0, size)
  }
  block(lengthSize: number): Buffer {
    return this.#take(this.number(lengthSize))
  }
  #take(count: number): Buffer {
    if (this.#at + count > this.#bytes.length) throw new RangeError('ends early')
    this.#at += count
    return this.#bytes.subarray(this.#at - count, this.#at)
  }
}
