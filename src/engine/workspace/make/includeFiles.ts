import { constants } from 'node:fs'
import { copyFile, lstat, mkdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { markers } from '../../base/markers.ts'
import { isInside } from '../find/pathSafety.ts'
import type { Repository } from '../git/repository.ts'

/**
 * `.worktreeinclude`: ignored files that a fresh tree needs all the same (`.env`, local settings). Only files
 * that git ignores in both trees *and* the list names are copied, so that nothing of it can ever be committed by accident.
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
  // Our marker says what the other tree is.
  const wanted = ignored.filter((each) => named.has(each) && !markers.includes(each))
  // The branch may ignore less than what is checked out beside it: there a secret would be an untracked file.
  const hidden = new Set(await ignoredIn(repository, to, wanted))
  const ends = { copied: [] as string[], taken: [] as string[], shown: [] as string[], left: [] as string[] }
  for (const path of wanted) {
    const end = hidden.has(path) ? await copyInside(from, to, path) : await endUncopied(to, path)
    ends[end].push(bytes(path).toString())
  }
  const not = 'not copied, though .worktreeinclude names them, because the branch'
  return [
    ...listed('copied as .worktreeinclude asks', ends.copied),
    ...listed(`${not} has its own there`, ends.taken),
    ...listed(`${not} does not ignore them`, ends.shown),
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
  return split(answer).filter((path) => !path.endsWith('/'))
}

const split = (answer: Buffer): string[] =>
  answer
    .toString('latin1')
    .split('\0')
    .filter((path) => path !== '')

/** Those of the paths that the rules of a tree ignore; of one that lies behind a link or in a submodule git cannot say. */
async function ignoredIn(repository: Repository, cwd: string, paths: readonly string[]): Promise<string[]> {
  if (paths.length === 0) return []
  // Behind `./` a name that begins with a colon is no magic.
  const input = bytes(paths.map((path) => `./${path}\0`).join(''))
  const answer = await repository.try(['check-ignore', '--no-index', '-z', '--stdin'], { cwd, input })
  if (answer.code === 0 || answer.code === 1) return split(answer.stdout).map((path) => path.slice(2))
  if (paths.length === 1) return []
  const half = Math.ceil(paths.length / 2)
  const parts = [paths.slice(0, half), paths.slice(half)]
  return (await Promise.all(parts.map((part) => ignoredIn(repository, cwd, part)))).flat()
}

async function endUncopied(to: string, path: string): Promise<CopyEnd> {
  const isThere = await lstat(inside(to, path)).then(
    () => true,
    ({ code }: NodeJS.ErrnoException) => code !== 'ENOENT',
  )
  return isThere || !(await isBelowFolders(to, path)) ? 'taken' : 'shown'
}

/** `shown`: its branch would see it as an untracked file. `taken`: the commit that the tree was made from still tracks something there, which is the branch's own. */
type CopyEnd = 'copied' | 'taken' | 'shown' | 'left'

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

const foldersAbove = (tree: string, path: string): Buffer[] => {
  const names = path.split('/').slice(0, -1)
  return names.map((_, depth) => inside(tree, names.slice(0, depth + 1).join('/')))
}

async function isBelowFolders(tree: string, path: string): Promise<boolean> {
  for (const at of foldersAbove(tree, path)) {
    const info = await lstat(at).catch(() => null)
    if (info === null) return true
    if (!info.isDirectory()) return false
  }
  return true
}

async function makeParents(tree: string, path: string): Promise<boolean> {
  for (const at of foldersAbove(tree, path)) {
    await mkdir(at).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
    if (!(await lstat(at)).isDirectory()) return false
  }
  return true
}
