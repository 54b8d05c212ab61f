import { fromBase64 } from '../text/base64.ts'
import { showHidden } from '../text/visible.ts'

/**
 * Output arrives as bytes, cut anywhere. Characters cut in two are joined, bytes that were seen already are skipped,
 * and characters that reorder or hide text are named: the grid would otherwise obey them.
 */
export class OutputReader {
  #decoder = new TextDecoder('utf-8')
  #next = 0
  #lineEnds: 'terminal' | 'pipe' | null = null

  read(offset: number, base64: string): string {
    const bytes = fromBase64(base64)
    if (offset > this.#next) this.#jump(offset)
    const seen = Math.max(0, this.#next - offset)
    if (seen >= bytes.length) return ''
    this.#next = offset + bytes.length
    return showHidden(this.#returning(this.#decoder.decode(bytes.subarray(seen), { stream: true })))
  }

  /** What lies between was left out; half a character from before it has no other half. */
  #jump(offset: number): void {
    this.#decoder = new TextDecoder('utf-8')
    this.#next = offset
  }

  /**
   * A terminal returns the carriage at a line's end, a pipe leaves that to its reader. The first line end tells which
   * of them was written to; later ones would mislead, as programs on a terminal also move down without returning.
   */
  #returning(text: string): string {
    const first = text.indexOf('\n')
    if (this.#lineEnds === null && first !== -1)
      this.#lineEnds = text[first - 1] === '\r' ? 'terminal' : 'pipe'
    return this.#lineEnds === 'pipe' ? text.replaceAll(/(?<!\r)\n/g, '\r\n') : text
  }
}
