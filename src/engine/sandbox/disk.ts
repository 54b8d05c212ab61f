import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** Bytes on disk below a folder; what vanishes while we look counts as gone. */
export async function diskUse(folder: string): Promise<number> {
  let bytes = 0
  const pending = [folder]
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const current = next
    const entries = await readdir(current, { withFileTypes: true }).catch(() => [])
    const sizes = await Promise.all(
      entries.map(async (entry) => {
        const path = join(current, entry.name)
        if (entry.isDirectory()) pending.push(path)
        const info = await lstat(path).catch(() => null)
        // Blocks, not length: a sparse file of 1 TB takes nothing.
        return info === null ? 0 : info.blocks * 512
      }),
    )
    bytes += sizes.reduce((sum, size) => sum + size, 0)
  }
  return bytes
}

/** Looks again and again, more rarely the longer a look takes, until aborted or over the limit. */
export function watchDisk(
  folders: readonly string[],
  limitBytes: number,
  signal: AbortSignal,
  onOver: () => void,
): void {
  const look = async () => {
    const start = performance.now()
    const uses = await Promise.all(folders.map(diskUse))
    if (signal.aborted) return
    if (uses.reduce((sum, use) => sum + use, 0) > limitBytes) return onOver()
    const pause = Math.max(200, 10 * (performance.now() - start))
    const timer = setTimeout(() => void look(), pause)
    signal.addEventListener('abort', () => clearTimeout(timer), { once: true })
  }
  void look()
}
