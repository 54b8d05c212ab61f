/** The reasons of a failed preflight, one by one; the record keeps them in one line. */
export function reasonsOf(error: string | null): readonly string[] {
  const text = (error ?? '').replace(/^preflight: /, '').trim()
  if (text === '') return ['A check before the start failed.']
  return [...new Set(text.split(/; |\n/).map((reason) => reason.trim()))].filter(Boolean)
}

/** Another level may help: this one cannot be had here. */
export const isAboutLevel = (reason: string): boolean =>
  /^(sandbox|level|vm|container|bubblewrap)\b/.test(reason)
