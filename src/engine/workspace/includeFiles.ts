import { constants } from 'node:fs'
import { copyFile, lstat, mkdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { isInside } from './pathSafety.ts'
import type { Repository } from './repository.ts'

/**
 * `.worktreeinclude`: ignored files that a fresh tree needs all the same (`.env`, local settings). Only files
 * that git ignores *and* the list names are copied, so that nothing of it can ever be committed by accident.
 * Gives back what was copied, as a note.
 */
export async function includeFiles(
  repository: Repository,
  from: string,
  to: string,
  trusted: boolean,
): Promise<string[]> {
  const list = join(from, '.worktreeinclude')
  const info = await lstat(list).catch(() => null)
  if (info === null || !info.isFile()) return []
  // The list is the repository's word, and what it names are the user's secrets.
  if (!trusted) return [`.worktreeinclude is not honoured until you trust it: orangery config trust ${from}`]
  const ignored = await listOthers(repository, from, ['--exclude-standard'])
  const named = new Set(await listOthers(repository, from, [`--exclude-from=${list}`]))
  const copied: string[] = []
  for (const path of ignored) {
    if (named.has(path) && (await copyInside(from, to, path))) copied.push(path)
  }
  return copied.length === 0 ? [] : [`copied as .worktreeinclude asks: ${copied.join(', ')}`]
}

async function listOthers(repository: Repository, cwd: string, excludes: string[]): Promise<string[]> {
  const text = await repository.git(['ls-files', '--others', '--ignored', '-z', ...excludes], { cwd })
  return text.split('\0').filter((path) => path !== '' && !path.endsWith('/'))
}

// The list comes from the repository: a symlink on the way could lead a copy out of either tree.
async function copyInside(from: string, to: string, path: string): Promise<boolean> {
  const source = join(from, path)
  const info = await lstat(source)
  if (!info.isFile() || !isInside(await realpath(source), await realpath(from))) return false
  if (!(await makeParents(to, path))) return false
  await copyFile(source, join(to, path), constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
  return true
}

async function makeParents(tree: string, path: string): Promise<boolean> {
  let at = tree
  for (const name of path.split('/').slice(0, -1)) {
    at = join(at, name)
    await mkdir(at).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
    if (!(await lstat(at)).isDirectory()) return false
  }
  return true
}
