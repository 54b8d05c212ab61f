import type { Dirent } from 'node:fs'
import { lstat, readdir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { OrangeryError } from '../../shared/errors.ts'

/** What git reads commits, trees and names of commits by; the rest of its folder (hooks, notes of tools) tells it none. */
const believed =
  /^(HEAD|.+_HEAD|packed-refs|refs|reftable|logs|index|sharedindex\..*|objects|shallow|worktrees|modules|commondir|config|config\.worktree)$/
/** Below those: what no git of ours reads. */
const unread = new Set(['hooks', 'lfs', 'annex'])
const mostEntries = 1_000_000

/**
 * Refuses a repository part of which is somewhere else. Git follows links, so who made a checkout could put one to
 * another repository of the user in the place of a branch, the index or the objects, and we would hand its commits
 * to the agent. Looked at without following anything. (escape: linked-repository)
 */
export async function assertOwnGit(gitDir: string): Promise<void> {
  const path = await strayOf(gitDir)
  if (path === null) return
  throw new OrangeryError(
    'workspace.linked_repository',
    `${join(gitDir, path)}: this part of the repository is a link, and what it leads to may not be meant for an agent`,
    {
      kind: 'refused',
      hint: 'Put the real file or folder there, or make a whole copy of the repository with `git clone` and use that.',
    },
  )
}

/** The first part of a repository that leads out of it; null where it is all its own. */
async function strayOf(gitDir: string): Promise<string | null> {
  // Git would take a folder that is named in there for the repository.
  if ((await lstat(join(gitDir, 'commondir')).catch(() => null)) !== null) return 'commondir'
  const waiting = (await entriesOf(gitDir)).filter(({ name }) => believed.test(name)).map(inFolder(''))
  for (let seen = 0; waiting.length > 0 && seen < mostEntries; seen += 1) {
    const { path, entry } = waiting.pop() as Placed
    if (entry.isSymbolicLink()) {
      if (!(await isOldHead(gitDir, path))) return path
    } else if (entry.isDirectory() && !isFanOut(path))
      waiting.push(
        ...(await entriesOf(join(gitDir, path)))
          .filter(({ name }) => !unread.has(name) || path.startsWith('refs'))
          .map(inFolder(`${path}/`)),
      )
  }
  return null
}

type Placed = { readonly path: string; readonly entry: Dirent }
const inFolder =
  (folder: string) =>
  (entry: Dirent): Placed => ({ path: `${folder}${entry.name}`, entry })

const entriesOf = (folder: string): Promise<Dirent[]> =>
  readdir(folder, { withFileTypes: true }).catch((): Dirent[] => [])

/** The folders that hold a repository's loose objects, each named by what is in it. */
const isFanOut = (path: string): boolean => /(^|\/)objects\/[0-9a-f]{2}$/.test(path)

/** Git once made HEAD a link to its branch, and does so still where it is told to. */
async function isOldHead(gitDir: string, path: string): Promise<boolean> {
  if (!/(^|\/)HEAD$/.test(path) || path.startsWith('refs/')) return false
  const target = await readlink(join(gitDir, path)).catch(() => '')
  return target.startsWith('refs/') && !target.split('/').includes('..')
}
