import { readFileSync } from 'node:fs'

function isUtf8(bytes: Buffer): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    return true
  } catch {
    return false
  }
}

/** The words of our command line as the kernel keeps them; null where it does not tell. */
function rawWords(): Buffer[] | null {
  let bytes: Buffer
  try {
    bytes = readFileSync('/proc/self/cmdline')
  } catch {
    return null
  }
  const words: Buffer[] = []
  for (let start = 0, end = bytes.indexOf(0); end !== -1; start = end + 1, end = bytes.indexOf(0, start)) {
    words.push(bytes.subarray(start, end))
  }
  return words
}

/**
 * False where Node put U+FFFD for bytes of the command line that are not UTF-8: it hands us the text already
 * decoded, and what would be recorded is not what was given.
 */
export function wasSpelledOut(text: string): boolean {
  if (!text.includes('\ufffd')) return true
  const ours = process.argv.slice(2)
  // Before ours stand Node and its own options.
  const raw = rawWords()?.slice(-ours.length)
  if (raw === undefined) return true
  return ours.every((word, index) => !word.endsWith(text) || isUtf8(raw[index] ?? Buffer.alloc(0)))
}
