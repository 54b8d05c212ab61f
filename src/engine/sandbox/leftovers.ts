import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { reopenDir } from '../base/files.ts'
import { blockBytes, diskUse, type ClosedLister } from './disk.ts'

export type Leftover = { readonly path: string; readonly bytes: number }

/**
 * What tools left in the agent's home (caches, settings, histories): contained there, never landed. What was closed is
 * listed too.
 */
export async function listLeftovers(home: string, lister: ClosedLister = []): Promise<readonly Leftover[]> {
  reopenDir(home)
  const entries = await readdir(home, { withFileTypes: true }).catch(() => [])
  return Promise.all(
    entries
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
      .map(async (entry) => ({
        path: `~/${entry.name}`,
        // A link is not followed: it may lead anywhere.
        bytes: entry.isDirectory()
          ? await diskUse([join(home, entry.name)], lister)
          : ((await lstat(join(home, entry.name)).catch(() => null))?.blocks ?? 0) * blockBytes,
      })),
  )
}
