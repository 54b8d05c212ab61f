/** What the first bytes of a client say about the protocol inside a tunnel. */
export type Peeked =
  | { readonly kind: 'more' }
  /** `length`: of the hello with the records around it. */
  | { readonly kind: 'tls'; readonly serverName: string | null; readonly length: number }
  | { readonly kind: 'http' }
  /** HTTP/2 without TLS: its host names are compressed, and we do not read them. */
  | { readonly kind: 'h2c' }
  | { readonly kind: 'other' }
  /** A line that stays unfinished, to a host for which that does not matter. */
  | { readonly kind: 'begun' }
  /** Pretends to be one and is not: cut, because a server more lenient than we are could read another name. */
  | Broken
export type Broken = { readonly kind: 'broken'; readonly like: 'TLS' | 'HTTP' }

const longestHello = 64 * 1024
/** Enough for one that comes byte by byte; each is looked at again with every chunk. (escape: slow-hello) */
const mostRecords = 2048
const longestLine = 64 * 1024
const mostEmptyLines = 64
/** What a method may be made of, for servers that take any word for one. */
const wordCharacter = /[!#$%&'*+.^_`|~0-9A-Za-z-]/
/**
 * What stands between the parts of a request for the most lenient of servers: RFC 9112, section 3, and what Python's
 * `str.split` takes for white space.
 */
const space = String.raw`\t-\r\x1c-\x20\x85\xa0`
const isSpace = (byte: number | undefined) =>
  byte !== undefined &&
  ((byte >= 9 && byte <= 13) || (byte >= 0x1c && byte <= 32) || byte === 0x85 || byte === 0xa0)
const requestLine = /^[A-Z-]{3,32} [\x21-\x7e\x80-\xff]+ HTTP\/1\.[01]\r?$/
const method = 'GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|TRACE|CONNECT'
const shortestMethod = 3
const brokenMethod = new RegExp(`^(?:${method})$`, 'i')
/** HTTP/0.9, or a version that some server reads over; behind it servers look for a Host all the same. */
const oldRequest = new RegExp(`^(?:${method})[${space}]+[^${space}]`)
/** Commands of Redis and NATS: what follows is neither a path nor a host. */
const otherCommand = /^(?:CONNECT \{|(?!CONNECT)[A-Z]+ (?![/*]|\S*:\/\/))/
/** Others whose requests look alike. */
const otherVersion = /^[A-Z]+ [!-~]+ (?:RTSP|SIP|ICAP)\/[0-9]\.[0-9]\r?$/
/** What git says to a server of its own: the length of all it says, in front. */
const gitRequest = /^[0-9a-f]{4}git-(?:upload-pack|receive-pack|upload-archive) /

/**
 * A request to a directory (LDAP): a sequence, its length, which may count as a space, a number, and what it asks for. No server
 * takes a method `0` and a path that begins with a 2 for a request.
 */
const directoryRequest =
  // oxlint-disable-next-line no-control-regex
  /^0[^]\x02(?:\x01[^]|\x02[^]{2}|\x03[^]{3}|\x04[^]{4})[\x42\x4a\x50\x60\x63\x66\x68\x6c\x6e\x77]/

const brokenTls: Broken = { kind: 'broken', like: 'TLS' }
const brokenHttp: Broken = { kind: 'broken', like: 'HTTP' }

const helloRecord = 0x16
/** Of a first byte, whether TLS has records of that kind: of all of them, only a hello is a beginning. */
export const isRecord = (byte: number | undefined) => byte !== undefined && byte >= 0x14 && byte <= 0x18

/** `isPinned`: the user said where it leads, so that there need not be a front end of which every leniency is to be feared. */
export function peek(bytes: Buffer, isPinned = false): Peeked {
  if (bytes.length === 0) return { kind: 'more' }
  if (bytes[0] === helloRecord) return peekTls(bytes)
  return peekOddTls(bytes) ?? peekHttp(bytes, isPinned)
}

/** First words that were begun and never finished: what would follow them is anyone's guess. */
export const unfinished = (bytes: Buffer): Broken => (isLikeTls(bytes) ? brokenTls : brokenHttp)

/** Of a beginning that may be too short to tell. */
export const isLikeTls = (bytes: Buffer): boolean =>
  isRecord(bytes[0]) && (bytes[1] === undefined || bytes[1] === 3)

/**
 * Servers read over a warning that comes before the hello, and some take a hello in the form of SSL 2: whatever of TLS
 * is not a plain hello hides the name that it is for. (escape: domain-fronting)
 */
function peekOddTls(bytes: Buffer): Peeked | null {
  const [first = 0, second, third, fourth, fifth] = bytes
  if (isRecord(first)) return second === undefined ? { kind: 'more' } : second === 3 ? brokenTls : null
  // SSL 2: two bytes of length, the first bit set; a ClientHello; the version.
  if (first < 0x80 || (third !== undefined && third !== 1)) return null
  if (fourth === undefined || fifth === undefined) return { kind: 'more' }
  return fourth === 3 || (fourth === 0 && fifth === 2) ? brokenTls : null
}

/**
 * Everything a lenient server could take for a request must come out as one, or as broken: spaces and empty lines
 * before it, invented methods, odd bytes in the path, odd spaces, no version. (escape: egress-host-header)
 */
function peekHttp(bytes: Buffer, isPinned: boolean): Peeked {
  let start = 0
  while (isSpace(bytes[start])) start++
  if (start > mostEmptyLines) return brokenHttp
  const rest = bytes.subarray(start, start + longestLine)
  const wish: Peeked = rest.length < longestLine ? { kind: 'more' } : brokenHttp
  if (rest.length === 0) return wish
  const text = rest.toString('latin1')
  // The PROXY protocol, old and new: the server would read our first words behind it. (escape: domain-fronting)
  if (/^PROXY\s+(TCP|UNKNOWN)/i.test(text) || (start >= 4 && rest[0] === 0)) return brokenHttp
  let word = 0
  while (word < text.length && wordCharacter.test(text[word] ?? '')) word++
  if (word === text.length) return isPinned && wish.kind === 'broken' ? { kind: 'begun' } : wish
  if (word === 0) return { kind: 'other' }
  if (!isSpace(rest[word]))
    return brokenMethod.test(text.slice(0, word)) && !isPlain(rest[word]) ? brokenHttp : { kind: 'other' }
  const end = text.indexOf('\n')
  const line = end === -1 ? text : text.slice(0, end)
  if (end === -1) {
    // Numbers that look like a letter and a space, and git: who waits for a line of theirs waits for ever.
    const isBinary = line.includes('\0') && (word < shortestMethod || gitRequest.test(line))
    return isBinary || (start === 0 && directoryRequest.test(text)) ? { kind: 'other' } : wish
  }
  if (requestLine.test(line)) return { kind: 'http' }
  if (/^PRI \* HTTP\/2\.0\r?$/.test(line)) return { kind: 'h2c' }
  if (/HTTP\//i.test(line)) return brokenHttp
  if (!oldRequest.test(line) || otherVersion.test(line)) return { kind: 'other' }
  return isPinned && otherCommand.test(line) ? { kind: 'other' } : brokenHttp
}

const isPlain = (byte: number | undefined) => byte !== undefined && byte > 32 && byte < 127

/** Takes the handshake message out of its records, which may split it anywhere. */
function peekTls(bytes: Buffer): Peeked {
  const parts: Buffer[] = []
  let length = 0
  let promised = 0
  let body: number | null = null
  let at = 0
  while (at + 5 <= bytes.length) {
    if (parts.length === mostRecords || bytes[at] !== helloRecord || bytes[at + 1] !== 3) return brokenTls
    const size = bytes.readUInt16BE(at + 3)
    if (size === 0 || size > 16384 + 256) return brokenTls
    const part = bytes.subarray(at + 5, at + 5 + size)
    parts.push(part)
    length += part.length
    promised += size
    if (body === null && length >= 4) {
      const begun = Buffer.concat(parts)
      if (begun[0] !== 1) return brokenTls
      body = begun.readUIntBE(1, 3)
      if (body > longestHello) return brokenTls
    }
    if (body !== null) {
      // Something behind the hello in the same record: a second one, for whoever reads on. (escape: domain-fronting)
      if (promised > 4 + body) return brokenTls
      if (length === 4 + body) return serverNameOf(Buffer.concat(parts).subarray(4), at + 5 + size)
    }
    at += 5 + size
  }
  return bytes.length > 2 * longestHello ? brokenTls : { kind: 'more' }
}

function serverNameOf(body: Buffer, length: number): Peeked {
  try {
    const reader = new Reader(body)
    reader.skip(2 + 32)
    reader.block(1)
    reader.block(2)
    reader.block(1)
    if (reader.atEnd) return { kind: 'tls', serverName: null, length }
    const extensions = new Reader(reader.block(2))
    let found: string | null = null
    while (!extensions.atEnd) {
      const type = extensions.number(2)
      const data = extensions.block(2)
      if (type !== 0) continue
      // Two names, or one repeated: which of them the server heeds is anyone's guess.
      if (found !== null) return brokenTls
      const names = new Reader(new Reader(data).block(2))
      if (names.number(1) !== 0) return brokenTls
      found = names.block(2).toString('latin1')
      if (!names.atEnd || found === '') return brokenTls
    }
    return { kind: 'tls', serverName: found, length }
  } catch {
    return brokenTls
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
