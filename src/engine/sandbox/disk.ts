import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../base/process.ts'

/** A listing of folders that are closed to us, by who can open them: `find` in a user namespace of ours. */
export type ClosedLister = readonly string[]

type File = { readonly key: string; readonly bytes: number }

// Blocks, not length: a sparse file of 1 TB takes nothing.
const blockBytes = 512

async function listClosed(folders: readonly string[], lister: ClosedLister): Promise<readonly File[]> {
  const [program = '', ...args] = lister
  const listing = await run(program, [
    ...args,
    ...folders,
    '-mindepth',
    '1',
    '-printf',
    String.raw`%D:%i %b\n`,
  ])
  return listing.stdout
    .toString()
    .split('\n')
    .flatMap((line) => {
      const [key = '', blocks = ''] = line.split(' ')
      return key === '' ? [] : [{ key, bytes: Number(blocks) * blockBytes }]
    })
}

/**
 * Bytes on disk below folders, a file of several names counted once; what vanishes while we look counts as gone.
 * An agent may close a folder to us and go on writing in it: those are listed by `lister`, where there is one.
 */
export async function diskUse(folders: readonly string[], lister: ClosedLister = []): Promise<number> {
  const files = new Map<string, number>()
  const closed: string[] = []
  const pending = [...folders]
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const current = next
    const entries = await readdir(current, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'EACCES') closed.push(current)
      return []
    })
    await Promise.all(
      entries.map(async (entry) => {
        const path = join(current, entry.name)
        if (entry.isDirectory()) pending.push(path)
        const info = await lstat(path).catch((error: NodeJS.ErrnoException) => {
          // It can be listed but not entered, or the name is no UTF-8, under which we find nothing.
          const isOurs = error.code !== 'EACCES' && !entry.name.includes('\uFFFD')
          if (!isOurs && !closed.includes(current)) closed.push(current)
          return null
        })
        if (info !== null) files.set(`${info.dev}:${info.ino}`, info.blocks * blockBytes)
      }),
    )
  }
  if (closed.length > 0 && lister.length > 0) {
    for (const { key, bytes } of await listClosed(closed, lister)) files.set(key, bytes)
  }
  return [...files.values()].reduce((sum, bytes) => sum + bytes, 0)
}

/** Looks again and again, more rarely the longer a look takes, until aborted or over the limit. */
export function watchDisk(
  use: () => Promise<number>,
  limitBytes: number,
  signal: AbortSignal,
  onOver: () => void,
): void {
  const look = async () => {
    const start = performance.now()
    const bytes = await use()
    if (signal.aborted) return
    if (bytes > limitBytes) return onOver()
    const pause = Math.max(200, 10 * (performance.now() - start))
    const timer = setTimeout(() => void look(), pause)
    signal.addEventListener('abort', () => clearTimeout(timer), { once: true })
  }
  void look()
}
