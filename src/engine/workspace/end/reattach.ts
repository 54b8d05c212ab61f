import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import type { ArchiveRecord } from '../../../shared/invocation.ts'
import type { Layout } from '../../base/paths.ts'
import { gitSideOf, scratchOf, takeBack, type Aside } from './archive.ts'
import { whileOpen } from './closedFolders.ts'
import { adminOf, holderOf, standGitSide, writeLine } from '../git/gitSide.ts'
import { openRepository, type Repository } from '../git/repository.ts'
import { isFolder } from '../find/scan.ts'

/** After `record` what was put away is back; before it, the next attempt goes on wherever one was cut off. */
export const restoreSteps = ['branch', 'content', 'git', 'name', 'link', 'state', 'record'] as const
export type RestoreStep = (typeof restoreSteps)[number]
export type AfterRestoreStep = (step: RestoreStep) => Promise<void> | void

/** The names git had and has for a checkout. */
export type Renamed = { readonly was: string; readonly now: string }

/** Brings a worktree back that was put away: branch, files, and git's side as it was kept. */
export async function reattachWorktree(
  layout: Layout,
  repository: Repository,
  record: ArchiveRecord & { readonly branch: string; readonly tip: string },
  tree: string,
  after: AfterRestoreStep,
  follow: (renamed: Renamed) => Promise<void> = async () => {},
): Promise<void> {
  const { id, branch, tip, aside = {} } = record
  await standBranch(repository, branch, tip)
  await after('branch')
  await takeBack(layout, record)
  await after('content')
  // Its tree was missing when it was put away, and is again.
  if (!(await isFolder(tree))) return
  const link = join(tree, '.git')
  const was = basename((await readFile(link, 'utf8').catch(() => 'tree')).trim())
  const kept = (await isFolder(gitSideOf(layout, id))) ? gitSideOf(layout, id) : null
  const place = { id, tree, branch, kept, scratch: scratchOf(layout, id), name: was }
  const folder = await standGitSide(repository, place)
  await after('git')
  await follow({ was, now: basename(folder) })
  await after('name')
  await whileOpen(tree, () => writeLine(link, `gitdir: ${folder}`))
  await after('link')
  if (kept === null) await restoreAside(repository, tree, aside)
  else await standHead(repository, tree, branch, tip)
  // On another branch other settings may hold than those that were asked for before.
  const settled = await openRepository(repository.commonDir)
  await settled.try(['update-index', '-q', '--refresh'], { cwd: tree })
  await after('state')
}

async function standBranch(repository: Repository, branch: string, tip: string): Promise<void> {
  const standing = await repository.commit(`refs/heads/${branch}`)
  if (standing === tip) return
  if (standing === null)
    return void (await repository.git(['update-ref', `refs/heads/${branch}`, tip, '0'.repeat(tip.length)]))
  throw new OrangeryError('workspace.branch_taken', `branch ${branch}: it stands elsewhere now`, {
    kind: 'cannot_create',
    hint: 'Rename that branch; the archive keeps its own.',
  })
}

/** A tree that was on another branch is on it again, unless that is gone, elsewhere, or its own under a new name. */
async function standHead(repository: Repository, cwd: string, branch: string, tip: string): Promise<void> {
  const said = await repository.try(['symbolic-ref', '-q', 'HEAD'], { cwd })
  const on = said.stdout.toString().trim()
  const own = `refs/heads/${branch}`
  if (said.code !== 0 || on === own) return
  const standing = await repository.commit(on)
  const admin = await adminOf(repository.commonDir, cwd)
  const holder = await holderOf(repository.commonDir, on.replace('refs/heads/', ''), admin)
  if (standing !== null && standing !== tip && holder === null) return
  await repository.git(['symbolic-ref', 'HEAD', own], { cwd })
}

/** From the refs alone, where git's folder was not kept. */
async function restoreAside(repository: Repository, cwd: string, aside: Aside): Promise<void> {
  if (aside.head !== undefined)
    await repository.git(['update-ref', '--no-deref', 'HEAD', aside.head], { cwd })
  await repository.git(['reset', '--quiet'], { cwd })
  if (aside.index === undefined) return
  await repository.git(['read-tree', aside.index], { cwd })
  if (aside.conflict !== undefined) await reopenConflicts(repository, cwd, aside.conflict)
  if (aside.merge !== undefined) await repository.git(['update-ref', 'MERGE_HEAD', aside.merge], { cwd })
}

/** Puts the sides of conflicts back into an index, as `asideOf` kept them. */
async function reopenConflicts(repository: Repository, cwd: string, conflict: string): Promise<void> {
  const listed = (await repository.raw(['ls-tree', '-r', '-z', conflict], { cwd })).toString('latin1')
  const lines = listed
    .split('\0')
    .map((entry) => entry.replace(/^(\d+) \w+ ([0-9a-f]+)\t(\d)\//, '$1 $2 $3\t'))
  const input = Buffer.from(lines.join('\0'), 'latin1')
  await repository.git(['update-index', '-z', '--index-info'], { cwd, input })
}
