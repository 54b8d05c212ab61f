import { lstat, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { reopenDir } from '../../base/files.ts'
import { blockBytes, diskUse, type ClosedLister } from './disk.ts'

export type Leftover = { readonly path: string; readonly bytes: number }

/**
 * What tools left in the agent's home (caches, settings, histories): contained there, never landed. What was closed is
 * listed too; what is as we gave it, by name and content, is not.
 */
export async function listLeftovers(
  home: string,
  lister: ClosedLister = [],
  given: Readonly<Record<string, string>> = {},
): Promise<readonly Leftover[]> {
  reopenDir(home)
  const entries = await readdir(home, { withFileTypes: true }).catch(() => [])
  const isGiven = await Promise.all(
    entries.map(async (entry) => {
      const text = Object.hasOwn(given, entry.name) && entry.isFile() ? given[entry.name] : undefined
      const path = join(home, entry.name)
      // It may have grown beyond what one wants to read.
      if (text === undefined || (await lstat(path)).size !== Buffer.byteLength(text)) return false
      return (await readFile(path, 'utf8').catch(() => null)) === text
    }),
  )
  return Promise.all(
    entries
      .filter((_entry, index) => isGiven[index] === false)
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
