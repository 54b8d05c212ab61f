import { lstat, readdir } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, resolve } from 'node:path'
import type { CheckResult } from '../../../shared/doctor.ts'
import type { WorkspaceStrategy } from '../../../shared/spec.ts'
import { shellLine } from '../../../shared/shellLine.ts'
import { readSmallFile } from '../../base/files.ts'
import { looksLikeGit } from '../../base/findGit.ts'
import { isInside } from '../find/pathSafety.ts'
import { gitsBeside, type Project } from '../find/project.ts'

const longestChain = 5

/** A repository of the project, and the folders of objects it borrows that nothing else shows. */
export type Borrower = { readonly commonDir: string; readonly folders: readonly string[] }

/**
 * Which of a project's repositories borrow objects from elsewhere (`git clone --shared`), outside of all that its
 * sandbox shows. Those folders are not shown for being named: whoever made the checkout would choose which of the
 * user's repositories the agent reads. (escape: borrowed-objects)
 */
export function borrowersOf({ roots }: Pick<Project, 'roots'>): Borrower[] {
  const seen = new Set(
    roots.flatMap(({ path, git }) => {
      const isShown = git !== null && (isInside(git.commonDir, path) || (git.confirmed && git.top === path))
      return isShown ? [git.commonDir] : []
    }),
  )
  const shown = [...seen, ...roots.map(({ path }) => path)]
  return [...seen].flatMap((commonDir) => {
    const folders = chainOf(commonDir).filter((folder) => !shown.some((place) => isInside(folder, place)))
    return folders.length === 0 ? [] : [{ commonDir, folders }]
  })
}

function chainOf(commonDir: string): string[] {
  const found = new Set<string>()
  let chain = [join(commonDir, 'objects')]
  for (let depth = 0; depth < longestChain && chain.length > 0; depth += 1) {
    chain = chain.flatMap(alternatesOf).filter((folder) => !found.has(folder))
    for (const folder of chain) found.add(folder)
  }
  return [...found]
}

function alternatesOf(objects: string): string[] {
  const text = readSmallFile(join(objects, 'info', 'alternates')) ?? ''
  return text.split('\n').flatMap((line) => {
    if (line === '' || line.startsWith('#')) return []
    const path = line.startsWith('"') ? line.slice(1, -1).replace(/\\([0-7]{3}|.)/g, unescaped) : line
    return [isAbsolute(path) ? resolve(path) : resolve(objects, path)]
  })
}

const unescaped = (_: string, one: string): string =>
  one.length === 3 ? String.fromCharCode(Number.parseInt(one, 8)) : one

const mostLent = 2 * 1024 ** 3

/**
 * Why a borrower's objects cannot be copied for its sandbox; null: they can. The copy is shown where the folder is,
 * and a checkout that names any other folder would have it laid over what the sandbox has there.
 */
export async function faultOf(
  { folders }: Borrower,
  { roots }: Pick<Project, 'roots'>,
): Promise<string | null> {
  let size = 0
  for (const folder of folders) {
    const isStore = basename(folder) === 'objects' && (await looksLikeGit(dirname(folder)))
    if (!isStore || roots.some(({ path, target }) => [path, target].some((root) => isInside(root, folder))))
      return `${folder} is not the objects of a repository`
    for (const name of await readdir(join(folder, 'pack')).catch((): string[] => []))
      size += (await lstat(join(folder, 'pack', name)).catch(() => null))?.size ?? 0
  }
  return size > mostLent ? 'there is more than 2 GB of it' : null
}

/** A worktree sandbox is nothing without git. */
export async function checkBorrowed(project: Pick<Project, 'roots'>, level: number): Promise<CheckResult> {
  const borrowers = borrowersOf(project)
  if (borrowers.length === 0)
    return { name, ok: true, detail: 'the repository has all its objects itself', fix: null }
  const faults = await faultsOf(project, borrowers, level)
  const from = borrowers.flatMap(({ folders }) => folders).join(', ')
  if (faults.length === 0)
    return { name, ok: true, detail: `what the repository borrows from ${from} is copied`, fix: null }
  return { name, ok: false, detail: `${missing(from)}: ${faults.join(', ')}`, fix: makeWhole }
}
const name = 'borrowed objects'

const missing = (from: string): string =>
  `the repository borrows objects from ${from}, which the sandbox does not show, so git would not work inside`

async function faultsOf(
  project: Pick<Project, 'roots'>,
  borrowers: readonly Borrower[],
  level: number,
): Promise<string[]> {
  if (level > 1) return ['a copy is made for sandboxes of level 1 only']
  const faults = await Promise.all(borrowers.map((borrower) => faultOf(borrower, project)))
  return faults.filter((fault) => fault !== null)
}

/** What helps where a repository is not whole. */
const makeWhole =
  'Make the repository whole: `git repack -ad`, then remove its objects/info/alternates. Or use the overlay strategy and name the other repository as a root too.'

/** What that means for git inside, as sentences, and what a `.git` does that lies elsewhere. */
export async function borrowedNotes(
  project: Pick<Project, 'roots'>,
  { level = 1, strategy }: { readonly level?: number; readonly strategy?: WorkspaceStrategy } = {},
): Promise<string[]> {
  return [
    ...unconfirmedNotes(project),
    ...(strategy === 'none' ? readOnlyNotes(project) : []),
    ...(await lentNotes(project, level)),
  ]
}

/** `git init --separate-git-dir`, or a submodule alone: the repository does not say that the checkout is its own. */
function unconfirmedNotes({ roots }: Pick<Project, 'roots'>): string[] {
  return roots.flatMap(({ path, git }) => {
    if (git === null || git.confirmed || git.top !== path) return []
    if (roots.some((root) => isInside(git.commonDir, root.path))) return []
    return [
      `git does not work inside: the .git of ${path} names ${git.commonDir}, which is not shown, since that repository knows nothing of this checkout. An agent that is to commit gets a worktree: \`${shellLine(['orangery', 'worktree', 'create', '--repo', git.commonDir])} --name NAME\``,
    ]
  })
}

/** With the real files: what git can do in a linked checkout that was named without its repository. */
function readOnlyNotes(project: Pick<Project, 'roots'>): string[] {
  return gitsBeside(project).map(
    (folder) =>
      `${folder} is read-only inside: your other checkouts share it, and it lies outside the named folders. Git can look and not commit; an agent that is to commit runs with --changeset overlay`,
  )
}

async function lentNotes(project: Pick<Project, 'roots'>, level: number): Promise<string[]> {
  const borrowers = borrowersOf(project)
  if (borrowers.length === 0) return []
  const from = borrowers.flatMap(({ folders }) => folders).join(', ')
  const faults = await faultsOf(project, borrowers, level)
  if (faults.length === 0)
    return [
      `the sandbox has a copy of what the repository borrows from ${from}, as far as its own refs reach`,
    ]
  return [`git does not work inside: ${missing(from)} (${faults.join(', ')}). ${makeWhole}`]
}
