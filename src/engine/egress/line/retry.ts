import { isRecord, peek } from '../tls/hello.ts'

const header = 5
const largestRecord = 16384 + 256
const handshake = 0x16
const alert = 0x15
const alertLength = header + 2
const serverHello = 2
/** Where a ServerHello has its random bytes, and the ones by which it asks for another hello (RFC 8446, 4.1.3). */
const randomAt = header + 6
const again = Buffer.from('cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c', 'hex')
const headLength = randomAt + again.length
const longestHead = headLength + 4 * alertLength

/**
 * Watches TLS whose first hello was found good: a server may ask for a second one, which can name another host, and front ends
 * heed the last. So nothing of a handshake passes before the server has spoken, and a second hello only with the first
 * one's name. (escape: second-hello)
 */
export class HelloWatch {
  #state: 'first' | 'unanswered' | 'again' | 'open' = 'first'
  #serverName: string | null = null
  #held: Buffer = Buffer.alloc(0)
  #head: Buffer = Buffer.alloc(0)
  readonly #framing: Framing | null

  /** `isStrict`: also behind the hello only records of TLS may follow. */
  constructor(isStrict = false) {
    this.#framing = isStrict ? new Framing() : null
  }

  /** What may go on to the server now; null: nothing more may. */
  fromClient(bytes: Buffer): Buffer | null {
    const passed = this.#pass(bytes)
    return passed === null || this.#framing?.takes(passed) === false ? null : passed
  }

  #pass(bytes: Buffer): Buffer | null {
    if (this.#state === 'open' && this.#held.length === 0) return bytes
    this.#held = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes])
    const passed: Buffer[] = []
    while (this.#held.length > 0) {
      const length = this.#nextLength()
      if (length === null) return null
      if (length === 0) break
      passed.push(this.#held.subarray(0, length))
      this.#held = this.#held.subarray(length)
    }
    return Buffer.concat(passed)
  }

  /** Whether it may go on: who answers a hello in anything but TLS takes what follows for something else. (escape: hello-then-plain) */
  fromServer(bytes: Buffer): boolean {
    if (this.#state !== 'first' && this.#state !== 'unanswered') return true
    this.#head = Buffer.concat([this.#head, bytes.subarray(0, longestHead)])
    // A warning may come before the answer; behind any other alert nothing comes.
    while (
      this.#head[0] === alert &&
      this.#head.length >= alertLength &&
      this.#head[4] === alertLength - header
    )
      this.#head = this.#head.subarray(alertLength)
    const [type, major, , , , message] = this.#head
    if (type === undefined) return true
    if (type !== handshake && type !== alert) return false
    if (major !== undefined && major !== 3) return false
    if (type === alert) return this.#head.length < alertLength
    if (message !== undefined && message !== serverHello) return false
    if (this.#head.length < headLength) return true
    this.#state = this.#head.subarray(randomAt, headLength).equals(again) ? 'again' : 'open'
    return true
  }

  /** Of what is held; 0: not known yet, null: none of it may pass. */
  #nextLength(): number | null {
    if (this.#state === 'open') return this.#held.length
    if (this.#held[0] === handshake) return this.#helloLength()
    if (this.#state === 'first' || !isRecord(this.#held[0])) return null
    if (this.#held.length < header) return 0
    const length = header + this.#held.readUInt16BE(3)
    if (length > header + largestRecord) return null
    return this.#held.length < length ? 0 : length
  }

  #helloLength(): number | null {
    if (this.#state === 'unanswered') return null
    const peeked = peek(this.#held)
    if (peeked.kind === 'more') return 0
    if (peeked.kind !== 'tls') return null
    if (this.#state === 'again' && peeked.serverName !== this.#serverName) return null
    this.#state = this.#state === 'first' ? 'unanswered' : 'open'
    this.#serverName = peeked.serverName
    return peeked.length
  }
}

/** Whether bytes go on being records of TLS, in whatever pieces they come. */
class Framing {
  #left = 0
  #begun: Buffer = Buffer.alloc(0)

  takes(bytes: Buffer): boolean {
    let at = 0
    while (at < bytes.length) {
      const skipped = Math.min(this.#left, bytes.length - at)
      this.#left -= skipped
      at += skipped
      if (at === bytes.length) break
      const begun = Buffer.concat([this.#begun, bytes.subarray(at, at + header - this.#begun.length)])
      at += begun.length - this.#begun.length
      this.#begun = begun
      if (!isRecord(begun[0]) || (begun[1] ?? 3) !== 3) return false
      if (begun.length < header) break
      this.#left = begun.readUInt16BE(3)
      this.#begun = Buffer.alloc(0)
      if (this.#left > largestRecord) return false
    }
    return true
  }
}
