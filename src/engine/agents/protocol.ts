import type { AgentCard } from '../../shared/card.ts'
import type { EventBody } from '../../shared/events.ts'
import { readStreamJson } from './streamJson.ts'

/** A message longer than this is no message; what it says is in the output all the same. */
const longestLine = 1024 * 1024

/** Reads what an agent says of its own doing out of what it prints, in pieces as they come. */
export class ProtocolReader {
  readonly #read: (line: string) => readonly EventBody[]
  readonly #longest: number
  readonly #tooLong: () => void
  /** Pieces of a line that has not ended yet. */
  #rest: Uint8Array[] = []
  #restBytes = 0
  #skips = false

  constructor(read: (line: string) => readonly EventBody[], longest = longestLine, tooLong = () => {}) {
    this.#read = read
    this.#longest = longest
    this.#tooLong = tooLong
  }

  read(chunk: Uint8Array): readonly EventBody[] {
    const events: EventBody[] = []
    let from = 0
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
      const line = Buffer.concat([...this.#rest, chunk.subarray(from, end)])
      from = end + 1
      this.#forget()
      if (!this.#skips) events.push(...this.#read(line.toString('utf8')))
      this.#skips = false
    }
    if (from < chunk.length && !this.#skips) {
      // A copy: the piece may be part of a buffer that is used again.
      this.#rest.push(Buffer.from(chunk.subarray(from)))
      this.#restBytes += chunk.length - from
    }
    if (this.#restBytes > this.#longest) {
      this.#forget()
      this.#skips = true
      this.#tooLong()
    }
    return events
  }

  #forget(): void {
    this.#rest = []
    this.#restBytes = 0
  }
}

const readers: Partial<Record<AgentCard['protocol'], (line: string) => readonly EventBody[]>> = {
  'claude-stream-json': readStreamJson,
}

/** Null where an agent's output is only what it looks like. */
export function protocolReader({ protocol }: Pick<AgentCard, 'protocol'>): ProtocolReader | null {
  const read = readers[protocol]
  return read === undefined ? null : new ProtocolReader(read)
}
