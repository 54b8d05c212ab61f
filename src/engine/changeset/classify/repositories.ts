import { basename, dirname, join } from 'node:path'
import { joinPath, nameOf, parentOf, rootPath, type BytePath } from '../bytePath.ts'
import { gitPartOf } from './classify.ts'
import { errorCode, unlessMissing, type Disk, type DiskStat } from '../disk.ts'
import type { Entry } from '../manifest.ts'
import type { QuickTree } from '../capture/quickTree.ts'

export const inRepository = 'a git repository inside the project: nothing in it lands'

/** What lies under a name, in the original or in the agent's version. */
type Found = { readonly any: boolean; readonly file: boolean }
type Look = (name: string) => Promise<Found>

/**
 * Git takes any folder for a repository that looks like one, whatever its name, and runs what its `config` says.
 * An agent that lands the parts of a bare one would run code with the user's next `git status` in it. Either
 * side counts, so that no choice among the changes completes one. (escape: nested-bare-repository)
 */
async function isRepository(look: Look): Promise<boolean> {
  if (!(await look('HEAD')).any) return false
  if ((await look('config')).file || (await look('commondir')).file) return true
  return (await look('objects')).any && (await look('refs')).any
}

/** Tells for a changed path the outermost repository it lies in; null for none. */
export async function repositoryFinder(
  root: string,
  entries: readonly Entry[],
  original: QuickTree,
  disk: Disk,
): Promise<(path: BytePath) => Promise<BytePath | null>> {
  if (await isInsideRepository(root, disk)) return () => Promise.resolve(rootPath)
  const changed = new Map<string, Found>()
  for (const { path, base, result } of entries) {
    const kinds = [base?.kind, result?.kind].filter((kind) => kind !== undefined)
    // Without case: on macOS `head` is as good.
    const key = joinPath(parentOf(path), nameOf(path).toLowerCase())
    const file = kinds.some((kind) => kind !== 'directory') || changed.get(key)?.file === true
    changed.set(key, { any: true, file })
  }
  const known = new Map<BytePath, BytePath | null>()
  const repositoryAt = async (folder: BytePath): Promise<BytePath | null> => {
    const before = known.get(folder)
    if (before !== undefined) return before
    const above = folder === rootPath ? null : await repositoryAt(parentOf(folder))
    const looksLikeOne = () =>
      isRepository(async (name) => {
        const here = changed.get(joinPath(folder, name.toLowerCase()))
        if (here?.file === true) return here
        const onDisk = await lookAt(async () => original.lstat(joinPath(folder, name)))
        return { any: onDisk.any || here?.any === true, file: onDisk.file }
      })
    const found = above ?? ((await looksLikeOne()) ? folder : null)
    known.set(folder, found)
    return found
  }
  return (path) => repositoryAt(parentOf(path))
}

/** A root at or below a `.git`, or inside a bare repository: what is `hooks/x` there has no `.git` in its path. */
async function isInsideRepository(root: string, disk: Disk): Promise<boolean> {
  if (gitPartOf(root as BytePath) !== null) return true
  for (let at = dirname(root); basename(at) !== ''; at = dirname(at)) {
    const folder = at
    if (await isRepository((name) => lookAt(() => unlessMissing(disk.lstat(join(folder, name)))))) return true
  }
  return false
}

async function lookAt(lstat: () => Promise<DiskStat | null>): Promise<Found> {
  try {
    const stat = await lstat()
    return { any: stat !== null, file: stat !== null && !stat.isDirectory() }
  } catch (error) {
    // What the user may not look into, his git cannot run either.
    if (errorCode(error) !== 'EACCES') throw error
    return { any: false, file: false }
  }
}
