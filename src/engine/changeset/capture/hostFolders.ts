import { run } from '../../base/process.ts'
import type { Bases } from './bases.ts'
import { fromBytes, type BytePath } from '../bytePath.ts'
import { entryKey } from '../manifest.ts'
import { sidesOf, type RootScan } from './scan.ts'

const deepest = 3
const mostFolders = 1000
const patienceMs = 1000

/**
 * Which folder the user has at a path, by its inode: those near the top when we first look while the agent works, and
 * any other once the agent has something in it. Another one in its place may bring files along that are as old as can
 * be, while an agent that knew the former one goes on writing to that. (drift: swapped folder)
 */
export async function knownFolders(
  known: Bases['folders'],
  scans: readonly RootScan[],
  isRunning: boolean,
): Promise<Bases['folders']> {
  const overlays = scans.filter(({ root }) => root.mount.kind === 'overlay')
  if (known === null && !isRunning) return null
  const folders = new Map(known)
  for (const { root, seen } of overlays) {
    const top = known === null ? await topFolders(sidesOf(root).base) : []
    for (const [path, inode] of top) folders.set(entryKey({ root: root.path, path }), inode)
    for (const { path, result, base } of seen) {
      const key = entryKey({ root: root.path, path })
      if (result?.isDirectory() === true && base?.isDirectory() === true && !folders.has(key))
        folders.set(key, String(base.ino))
    }
  }
  return folders
}

/** As many as there is time for: one that is missing here is told by its times alone. */
async function topFolders(base: string): Promise<readonly (readonly [BytePath, string])[]> {
  const bulk = ['(', '-name', 'node_modules', '-o', '-name', '.git', ')', '-prune']
  const depth = ['-mindepth', '1', '-maxdepth', String(deepest)]
  const args = [
    '-P',
    '.',
    ...depth,
    '-type',
    'd',
    ...bulk,
    '-o',
    '-type',
    'd',
    '-printf',
    String.raw`%d %i %P\0`,
  ]
  const found = await run('find', args, { cwd: base, timeoutMs: patienceMs }).catch(() => null)
  if (found === null) return []
  return (
    fromBytes(found.stdout)
      .split('\0')
      // Where it was stopped the last one may be cut off.
      .slice(0, -1)
      .flatMap((line) => {
        const [, depth, inode, path] = /^(\d+) (\d+) ([^]+)$/.exec(line) ?? []
        return inode === undefined || path === undefined
          ? []
          : [{ depth: Number(depth), inode, path: path as BytePath }]
      })
      .toSorted((a, b) => a.depth - b.depth)
      .slice(0, mostFolders)
      .map(({ path, inode }) => [path, inode] as const)
  )
}
