import { peek } from '../tls/hello.ts'

/** Looked at as a whole; of what a line has beyond it only where it names its version matters. */
const looked = 4096
/** No server reads on for a line of that length. */
const longestLine = 4 * 1024 * 1024
const version = /HTTP\//i
const versionLength = 5

/**
 * Watches a first line that was passed on before it was finished, because some protocols never finish one: it may go on as
 * anything but a request, whose host nobody would have compared. (escape: egress-host-header)
 */
export class LineWatch {
  #head: Buffer = Buffer.alloc(0)
  #said: Buffer | null = null
  #tail = ''
  #length = 0
  #isOver = false

  /** Everything that was said, where that is a proper request. */
  get request(): Buffer | null {
    return this.#said !== null && peek(this.#said, true).kind === 'http' ? this.#said : null
  }

  /** Of what the client says next, whether it may pass. */
  mayPass(bytes: Buffer): boolean {
    if (this.#isOver) return true
    this.#said = this.#length > looked ? null : Buffer.concat([this.#head, bytes])
    this.#length += bytes.length
    this.#head = Buffer.concat([this.#head, bytes.subarray(0, looked - this.#head.length)])
    const end = bytes.indexOf(10)
    const line = this.#tail + bytes.toString('latin1', 0, end === -1 ? bytes.length : end)
    this.#tail = line.slice(-versionLength)
    if (this.#length > looked && version.test(line)) return false
    const isWhole = this.#length > looked && end !== -1
    const { kind } = peek(isWhole ? Buffer.concat([this.#head, Buffer.from('\n')]) : this.#head, true)
    this.#isOver = kind === 'other' || this.#length > longestLine
    return this.#isOver || (kind === 'more' && !isWhole)
  }
}
