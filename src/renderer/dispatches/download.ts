import { fromBase64 } from '../text/base64.ts'

/** Hands a file of ours to the browser's own saving. */
export function download({ name, data_b64 }: { name: string; data_b64: string }): void {
  const url = URL.createObjectURL(new Blob([fromBase64(data_b64)]))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
