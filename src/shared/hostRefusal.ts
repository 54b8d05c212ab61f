/** What the host refused to write, and what helps: nothing of that is our fault. */
export type HostRefusal = { readonly hint: string }

export const fullDisk: HostRefusal = {
  hint: 'Free some space on that disk (`orangery disk` shows what Orangery keeps), or set ORANGERY_DATA_DIR to a folder on another.',
}

const refusals: readonly (HostRefusal & { readonly codes: readonly string[]; readonly words: RegExp })[] = [
  { codes: ['ENOSPC', 'EDQUOT'], words: /No space left on device|Disk quota exceeded/i, ...fullDisk },
  {
    codes: ['EROFS'],
    words: /Read-only file system/i,
    hint: 'Make that file system writable, or use a folder on another.',
  },
  {
    codes: ['EACCES', 'EPERM'],
    words: /Permission denied|Operation not permitted/i,
    hint: 'Make that folder writable for you, or run Orangery as who owns it.',
  },
]

/** Of an error of the system, by its code. */
export function refusalOfError(error: unknown): HostRefusal | null {
  const { code, syscall } = (error ?? {}) as { readonly code?: unknown; readonly syscall?: unknown }
  if (typeof code !== 'string' || typeof syscall !== 'string' || syscall === 'connect') return null
  return refusals.find(({ codes }) => codes.includes(code)) ?? null
}

/** Of what a program said: the line that tells it, which need not be its last. */
export function refusalInText(text: string): (HostRefusal & { readonly line: string }) | null {
  const lines = text.split('\n').map((line) => line.trim())
  for (const { words, hint } of refusals) {
    const line = lines.find((each) => words.test(each))
    if (line !== undefined) return { line, hint }
  }
  return null
}
