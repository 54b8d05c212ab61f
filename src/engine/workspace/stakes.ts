import { readdir } from 'node:fs/promises'
import type { Stakes } from '../../shared/invocation.ts'
import type { InvocationMeta, WorktreeMeta } from '../base/invocation.ts'
import { ownNamespace } from '../base/throughHolder.ts'
import type { Workspace } from '../base/workspace.ts'
import { isShutOut, treeHead } from './checkout.ts'
import { ownRefCommits, unfinishedIn } from './gitSide.ts'
import { changedPaths, ignoredPaths, someOf } from './notes.ts'
import { openRepository, type Repository } from './repository.ts'
import { isFolder } from './scan.ts'

type Checkout = {
  readonly commonDir: string
  readonly tree: string
  readonly branch: string
  readonly base: string
}

/** What an integration worktree holds that is nowhere else. */
export const stakesOf = (meta: WorktreeMeta): Promise<Stakes> =>
  stakesIn({
    commonDir: meta.common_dir,
    tree: meta.tree_path,
    branch: meta.branch,
    base: meta.base_commit,
  })

async function stakesIn({ commonDir, tree, branch, base }: Checkout): Promise<Stakes> {
  const repository = await openRepository(commonDir)
  const uncommitted = changedPaths(await statusOf(repository, tree, ['-uall']))
  const ignored = ignoredPaths(await statusOf(repository, tree, ['-unormal', '--ignored']))
  const standing = await repository.commit(`refs/heads/${branch}`)
  const head = await treeHead(repository, tree)
  const own = await ownRefCommits(repository, tree)
  const unmerged = await repository.git([
    'log',
    '--format=%h %s',
    ...[standing, head, ...own].filter((commit) => commit !== null),
    '--not',
    `--exclude=${branch}`,
    '--exclude=agency/sandbox-*',
    '--branches',
    '--remotes',
    '--tags',
    base,
  ])
  const unfinished = await unfinishedIn(commonDir, tree)
  return { uncommitted, unmerged: unmerged === '' ? [] : unmerged.split('\n'), unfinished, ignored }
}

async function statusOf(repository: Repository, tree: string, how: readonly string[]): Promise<string> {
  const ask = ['status', '--porcelain', '-z', ...how]
  const seen = await repository.try(ask, { cwd: tree })
  const again = isShutOut(seen) ? await repository.try(ask, { cwd: tree, through: ownNamespace }) : seen
  return (again.code === 0 ? again : seen).stdout.toString()
}

const nothing: Stakes = { uncommitted: [], unmerged: [], unfinished: [], ignored: [] }

/** What the user did himself in the tree of a sandbox; the agent's writes are in a layer beside it. */
export async function ownStakes(meta: InvocationMeta): Promise<Stakes> {
  const { common_dir: commonDir, sandbox_path: tree, sandbox_branch: branch, base_commit: base } = meta
  if (meta.strategy !== 'worktree' || commonDir === null || branch === null || base === null) return nothing
  if (!(await isFolder(commonDir)) || !(await isFolder(tree))) return nothing
  // A repository that git cannot read keeps nobody from ending a sandbox: all of it goes to the archive.
  return stakesIn({ commonDir, tree, branch, base }).catch(() => nothing)
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
