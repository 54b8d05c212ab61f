import { isUtf8 } from 'node:buffer'

/** What git wrote, as text to read and, where it is not UTF-8, with the exact bytes beside it. */
export type ExactText = { readonly text: string; readonly text_b64?: string }

export const exactText = (bytes: Buffer): ExactText => ({
  text: bytes.toString('utf8'),
  ...(isUtf8(bytes) ? {} : { text_b64: bytes.toString('base64') }),
})
