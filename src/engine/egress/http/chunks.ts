const longestLine = 16 * 1024

/** Finds where a body in chunks ends. */
export class ChunkEnd {
  #line = ''
  /** Of a chunk's bytes, with the line end behind them. */
  #left = 0
  #isTrailer = false
  #isLost = false

  /** How many of the next bytes belong to the body, where it ends in them; null: it goes on. */
  find(bytes: Buffer): number | null {
    let at = 0
    while (at < bytes.length && !this.#isLost) {
      const step = Math.min(this.#left, bytes.length - at)
      this.#left -= step
      at += step
      if (at === bytes.length) return null
      const end = bytes.indexOf(10, at)
      this.#line += bytes.toString('latin1', at, end === -1 ? bytes.length : end)
      // What is no chunk has no end either: the server says when.
      if (this.#line.length > longestLine) this.#isLost = true
      if (end === -1) return null
      at = end + 1
      if (this.#take(this.#line.trim())) return at
      this.#line = ''
    }
    return null
  }

  #take(line: string): boolean {
    if (this.#isTrailer) return line === ''
    const size = /^[0-9a-f]{1,12}/i.exec(line)?.[0]
    this.#isLost ||= size === undefined
    this.#isTrailer = Number.parseInt(size ?? '', 16) === 0
    this.#left = this.#isTrailer ? 0 : Number.parseInt(size ?? '0', 16) + 2
    return false
  }
}
