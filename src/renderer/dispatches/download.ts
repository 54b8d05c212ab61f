/** Hands a file of ours to the browser's own saving. */
export function download({ name, data_b64 }: { name: string; data_b64: string }): void {
  const bytes = Uint8Array.from(atob(data_b64), (character) => character.charCodeAt(0))
  const url = URL.createObjectURL(new Blob([bytes]))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
