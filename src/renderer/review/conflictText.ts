import { fromBase64 } from '../text/base64.ts'

/** The text behind base64, or null where the bytes are none: editing it would change what nobody saw. */
export function decodeText(base64: string): string | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(fromBase64(base64))
    // A text field would turn every kind of line end into one.
    return text.includes('\r') ? null : text
  } catch {
    return null
  }
}

export function encodeText(text: string): string {
  const bytes = new TextEncoder().encode(text)
  let binary = ''
  for (let at = 0; at < bytes.length; at += 0x8000)
    binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000))
  return btoa(binary)
}

/** Whether the marks of a merge are still in it. */
export const hasMarks = (text: string): boolean => /^(<{7} |={7}$|>{7} )/m.test(text)
