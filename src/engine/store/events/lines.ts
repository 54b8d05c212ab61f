import type { FileHandle } from 'node:fs/promises'

const chunkSize = 64 * 1024
const newline = 0x0a

/**
 * Reads whole lines from a file that may still grow. A line without its newline is read again next time,
 * because a repair may have taken it away in between.
 */
export class LineReader {
  readonly #file: FileHandle
  readonly #chunk = Buffer.alloc(chunkSize)
  #lineStart = 0
  /** How many bytes after the last whole line there were at the end of the last reading. */
  unfinished = 0

  constructor(file: FileHandle) {
    this.#file = file
  }

  /** Yields what there is; ends at the file's present end. */
  async *lines(): AsyncGenerator<Buffer> {
    let position = this.#lineStart
    let parts: Buffer[] = []
    for (;;) {
      const { bytesRead } = await this.#file.read(this.#chunk, 0, chunkSize, position)
      this.unfinished = position - this.#lineStart
      if (bytesRead === 0) return
      const read = this.#chunk.subarray(0, bytesRead)
      let from = 0
      for (let at = read.indexOf(newline); at !== -1; at = read.indexOf(newline, from)) {
        const line = Buffer.concat([...parts, read.subarray(from, at)])
        parts = []
        from = at + 1
        this.#lineStart = position + from
        yield line
      }
      if (from < bytesRead) parts.push(Buffer.from(read.subarray(from)))
      position += bytesRead
    }
  }
}
