import { isUtf8 } from 'node:buffer'

/**
 * A path may hold any byte. One that is no UTF-8 is kept as text with each of its bytes above 127 as a lone
 * surrogate, which no real text has, and so comes back as it was.
 */
export function pathText(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString()
  return bytes.toString('latin1').replaceAll(/[\x80-\xff]/g, (byte) => lone(byte.charCodeAt(0)))
}

const lone = (byte: number) => String.fromCharCode(0xdc_00 + byte)

// With `u` half of a pair is not found.
const loneByte = /[\udc80-\udcff]/u

/** What is written for a process to read, and what a call takes for a path. */
export function pathBytes(text: string): Buffer {
  if (!loneByte.test(text)) return Buffer.from(text)
  const parts = Array.from(text, (character) =>
    loneByte.test(character) ? Buffer.of(character.charCodeAt(0) & 0xff) : Buffer.from(character),
  )
  return Buffer.concat(parts)
}

/** mountinfo writes blanks, newlines and backslashes as octal. */
export function unescapeMount(text: string): string {
  if (!text.includes('\\')) return text
  const bytes: number[] = []
  const source = Buffer.from(text)
  for (let index = 0; index < source.length; index++) {
    const octal = source.subarray(index + 1, index + 4).toString()
    if (source[index] === 0x5c && /^[0-7]{3}$/.test(octal)) {
      bytes.push(Number.parseInt(octal, 8))
      index += 3
    } else bytes.push(source[index] ?? 0)
  }
  return Buffer.from(bytes).toString()
}
