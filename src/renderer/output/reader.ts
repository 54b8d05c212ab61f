import { showHidden } from '../text/visible.ts'

/**
 * Output arrives as bytes, cut anywhere. Characters cut in two are joined, bytes that were seen already are skipped,
 * and characters that reorder or hide text are named: the grid would otherwise obey them.
 */
export class OutputReader {
  readonly #decoder = new TextDecoder('utf-8')
  #next = 0

  read(offset: number, base64: string): string {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
    const seen = Math.max(0, this.#next - offset)
    if (seen >= bytes.length) return ''
    this.#next = offset + bytes.length
    return showHidden(this.#decoder.decode(bytes.subarray(seen), { stream: true }))
  }
}
