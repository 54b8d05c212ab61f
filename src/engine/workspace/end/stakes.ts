import { lstat, readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Stakes } from '../../../shared/invocation.ts'
import { gitFailed } from '../../base/git.ts'
import type { InvocationMeta, WorktreeMeta } from '../../base/invocation.ts'
import { markers } from '../../base/markers.ts'
import type { RunResult } from '../../base/process.ts'
import type { Workspace } from '../../base/workspace.ts'
import { isShutOut, treeHead } from './checkout.ts'
import { ownRefCommits, unfinishedIn } from '../git/gitSide.ts'
import { nestedCommits } from '../git/nested.ts'
import { changedPaths, ignoredPaths, someOf } from '../git/notes.ts'
import { openRepository, type Repository } from '../git/repository.ts'
import { submodulesOf } from '../make/sandboxFolders.ts'
import { isFolder } from '../find/scan.ts'
import { submoduleStakes } from './submoduleStakes.ts'
import { openStatus } from './wholeStatus.ts'

type Checkout = {
  readonly commonDir: string
  readonly tree: string
  readonly branch: string
  /** Null: nobody knows any more what it was made from. */
  readonly base: string | null
}

/** What an integration worktree holds that is nowhere else. */
export const stakesOf = (meta: WorktreeMeta): Promise<Stakes> =>
  stakesIn({
    commonDir: meta.common_dir,
    tree: meta.tree_path,
    branch: meta.branch,
    base: meta.base_commit,
  })

export async function stakesIn({ commonDir, tree, branch, base }: Checkout): Promise<Stakes> {
  const repository = await openRepository(commonDir)
  await using seen = await openStatus(repository, tree)
  const below = await submoduleStakes(repository, tree, base)
  // The repository's own word would be that submodules are not to be looked at.
  const changed = await seen.status(['-uall', '--ignore-submodules=dirty'])
  const uncommitted = [...new Set([...changedPaths(changed.stdout.toString()), ...below.uncommitted])]
  const besides = await seen.status(['-unormal', '--ignored', '--ignore-submodules=all'])
  const ignored = [...ignoredPaths(besides.stdout.toString()), ...(await besideMarkers(tree, besides))]
  const standing = await repository.commit(`refs/heads/${branch}`)
  const head = await treeHead(repository, tree)
  const own = await ownRefCommits(repository, tree)
  const unmerged = await unmergedFrom(repository, [standing, head, ...own], { branch, base })
  const nested = await nestedCommits(tree, [...uncommitted, ...ignored])
  const hidden = below.unseen.map((path) => `work that git cannot see (${path})`)
  const unfinished = [...(await unfinishedIn(commonDir, tree)), ...unseen(changed, besides), ...hidden]
  return { uncommitted, unmerged: [...unmerged, ...below.unmerged, ...nested], unfinished, ignored }
}

/** What git could not look at may be anything. */
function unseen(...asked: readonly RunResult[]): string[] {
  const failed = asked.find((result) => result.code !== 0 || isShutOut(result))
  return failed === undefined ? [] : [`work that git cannot see (${gitFailed(['status'], failed).message})`]
}

/** A folder that git ignores as a whole holds nothing of the repository: what lies there beside our marker is somebody's. */
async function besideMarkers(tree: string, { stdout }: RunResult): Promise<string[]> {
  const folders = new Set(markers.map((marker) => `${dirname(marker)}/`))
  const found: string[] = []
  for (const folder of folders) {
    if (!stdout.toString().split('\0').includes(`!! ${folder}`)) continue
    const names = await readdir(join(tree, folder)).catch((): string[] => [])
    found.push(...names.map((name) => `${folder}${name}`).filter((path) => !markers.includes(path)))
  }
  return found
}

/** The same of one whose tree is gone: what its branch holds. */
export async function stakesWithoutTree(meta: WorktreeMeta): Promise<Stakes> {
  const { common_dir: commonDir, branch, base_commit: base } = meta
  const repository = await openRepository(commonDir)
  const standing = await repository.commit(`refs/heads/${branch}`)
  const unmerged = await unmergedFrom(repository, [standing], { branch, base })
  return { ...nothing, unmerged, unfinished: await unfinishedIn(commonDir, meta.tree_path) }
}

/** Commits that are on no other branch. */
async function unmergedFrom(
  repository: Repository,
  tips: readonly (string | null)[],
  { branch, base }: Pick<Checkout, 'branch' | 'base'>,
): Promise<string[]> {
  const from = tips.filter((tip) => tip !== null)
  if (from.length === 0) return []
  const listed = await repository.git([
    'log',
    '--format=%h %s',
    ...from,
    '--not',
    `--exclude=${branch}`,
    '--exclude=agency/sandbox-*',
    '--branches',
    '--remotes',
    '--tags',
    ...(base === null ? [] : [base]),
  ])
  return listed === '' ? [] : listed.split('\n')
}

const nothing: Stakes = { uncommitted: [], unmerged: [], unfinished: [], ignored: [] }

/** What the user did himself in the tree of a sandbox; the agent's writes are in a layer beside it. */
export async function ownStakes(meta: InvocationMeta): Promise<Stakes> {
  const checkout = checkoutOf(meta)
  if (checkout === null) return nothing
  if (!(await isFolder(checkout.commonDir)) || !(await isFolder(checkout.tree))) return nothing
  // A repository that git cannot read keeps nobody from ending a sandbox: all of it goes to the archive.
  return stakesIn(checkout).catch(() => nothing)
}

/** Whether he did anything there at all; yes, where nobody can say. */
export async function hasOwnWork(meta: InvocationMeta): Promise<boolean> {
  const checkout = checkoutOf(meta)
  if (checkout === null) return false
  const stakes = await stakesIn(checkout).catch(() => null)
  if (stakes === null) return true
  const { ignored, ...others } = stakes
  if (Object.values(others).some((each) => each.length > 0)) return true
  const repositories = submodulesOf(dirname(checkout.tree))
  // What `.worktreeinclude` brought along was there before the sandbox was. Of a submodule git tells neither the
  // commits and stashes nor what is ignored there or lies in the place of one that is empty.
  const places = [
    ...ignored.map((path) => Buffer.from(join(checkout.tree, path))),
    ...(await gitlinksIn(checkout)),
    ...((await isFolder(repositories)) ? [Buffer.from(repositories)] : []),
  ]
  for (const place of places) if (await isChangedSince(place, meta.created_at_ms)) return true
  return false
}

/** Where the commit that a sandbox was made from has other repositories. */
async function gitlinksIn({ commonDir, tree, base }: Checkout): Promise<Buffer[]> {
  if (base === null) return []
  const repository = await openRepository(commonDir)
  const listed = await repository.raw(['ls-tree', '-r', '-z', '--full-tree', base])
  return listed
    .toString('latin1')
    .split('\0')
    .filter((entry) => entry.startsWith('160000 '))
    .map((entry) => Buffer.from(entry.slice(entry.indexOf('\t') + 1), 'latin1'))
    .map((path) => within(Buffer.from(tree), path))
}

const within = (folder: Buffer, path: Buffer): Buffer => Buffer.concat([folder, Buffer.from('/'), path])

function checkoutOf(meta: InvocationMeta): Checkout | null {
  const { common_dir: commonDir, sandbox_path: tree, sandbox_branch: branch, base_commit: base } = meta
  if (meta.strategy !== 'worktree' || commonDir === null || branch === null || base === null) return null
  return { commonDir, tree, branch, base }
}

async function isChangedSince(path: Buffer, timeMs: number): Promise<boolean> {
  const info = await lstat(path).catch(() => null)
  // The time it is compared with has whole milliseconds.
  if (info === null || Math.floor(info.ctimeMs) > timeMs) return true
  if (!info.isDirectory()) return false
  const names = await readdir(path, { encoding: 'buffer' }).catch(() => null)
  if (names === null) return true
  for (const name of names) if (await isChangedSince(within(path, name), timeMs)) return true
  return false
}

/** The same as sentences. */
export function stakesNotes({ uncommitted, unmerged, unfinished }: Stakes): string[] {
  return [
    ...(unmerged.length === 0 ? [] : [`your own commits in the sandbox: ${someOf(unmerged)}`]),
    ...(uncommitted.length === 0
      ? []
      : [`files you changed in the sandbox and did not commit: ${someOf(uncommitted)}`]),
    ...(unfinished.length === 0 ? [] : [`in the sandbox: ${unfinished.join(' and ')}`]),
  ]
}

const mostListed = 10_000

/** What was written or removed in the layers of a workspace, outside of git's own folder. */
export async function layerPaths({ roots }: Pick<Workspace, 'roots'>): Promise<string[]> {
  const found: string[] = []
  for (const { mount, role } of roots)
    if (role === 'project' && mount.kind === 'overlay') await listFiles(mount.upper, '', found)
  return found
}

async function listFiles(folder: string, below: string, found: string[]): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => null)
  // What cannot be looked into may hold anything.
  if (entries === null && below !== '') found.push(below)
  for (const entry of entries ?? []) {
    if (found.length >= mostListed || entry.name === '.git') continue
    if (entry.isDirectory()) await listFiles(`${folder}/${entry.name}`, `${below}${entry.name}/`, found)
    else found.push(`${below}${entry.name}`)
  }
}
