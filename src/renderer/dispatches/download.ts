import { fromBase64 } from '../text/base64.ts'

type Piece = { readonly name: string; readonly data_b64: string }

/** Hands a file of ours to the browser's own saving. Each piece is the browser's at once, which may put it on disk. */
export async function download(pieces: AsyncIterable<Piece>): Promise<void> {
  const parts: Blob[] = []
  let fileName = 'changeset'
  for await (const { name, data_b64 } of pieces) {
    fileName = name
    parts.push(new Blob([fromBase64(data_b64)]))
  }
  const url = URL.createObjectURL(new Blob(parts))
  const link = document.createElement('a')
  link.href = url
  link.download = fileName
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
