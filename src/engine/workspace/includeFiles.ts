import { constants } from 'node:fs'
import { copyFile, lstat, mkdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { markers } from '../base/markers.ts'
import { isInside } from './pathSafety.ts'
import type { Repository } from './repository.ts'

/**
 * `.worktreeinclude`: ignored files that a fresh tree needs all the same (`.env`, local settings). Only files
 * that git ignores *and* the list names are copied, so that nothing of it can ever be committed by accident.
 * Gives back what was copied and what could not be, as notes.
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
  const taken: string[] = []
  // Our marker says what the other tree is.
  for (const path of ignored.filter((each) => named.has(each) && !markers.includes(each))) {
    const end = await copyInside(from, to, path)
    if (end !== 'left') (end === 'copied' ? copied : taken).push(bytes(path).toString())
  }
  return [
    ...listed('copied as .worktreeinclude asks', copied),
    ...listed('not copied, though .worktreeinclude names them, because the branch has its own there', taken),
  ]
}

const listed = (what: string, paths: readonly string[]): string[] =>
  paths.length === 0 ? [] : [`${what}: ${paths.join(', ')}`]

// Names may hold any byte: they are texts of a character for each.
const bytes = (path: string): Buffer => Buffer.from(path, 'latin1')
const inside = (folder: string, path: string): Buffer =>
  Buffer.concat([Buffer.from(`${folder}/`), bytes(path)])

const realOf = async (path: string | Buffer): Promise<string> =>
  (await realpath(path, 'buffer')).toString('latin1')

async function listOthers(repository: Repository, cwd: string, excludes: string[]): Promise<string[]> {
  const answer = await repository.raw(['ls-files', '--others', '--ignored', '-z', ...excludes], { cwd })
  return answer
    .toString('latin1')
    .split('\0')
    .filter((path) => path !== '' && !path.endsWith('/'))
}

/** `taken`: the commit that the tree was made from still tracks something there, which is the branch's own. */
type CopyEnd = 'copied' | 'taken' | 'left'

// The list comes from the repository: a symlink on the way could lead a copy out of either tree.
async function copyInside(from: string, to: string, path: string): Promise<CopyEnd> {
  const source = inside(from, path)
  const info = await lstat(source)
  if (!info.isFile() || !isInside(await realOf(source), await realOf(from))) return 'left'
  if (!(await makeParents(to, path))) return 'taken'
  const flags = constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE
  return copyFile(source, inside(to, path), flags).then(
    () => 'copied',
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') return 'taken'
      throw error
    },
  )
}

async function makeParents(tree: string, path: string): Promise<boolean> {
  const names = path.split('/').slice(0, -1)
  for (const depth of names.keys()) {
    const at = inside(tree, names.slice(0, depth + 1).join('/'))
    await mkdir(at).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
    if (!(await lstat(at)).isDirectory()) return false
  }
  return true
}
