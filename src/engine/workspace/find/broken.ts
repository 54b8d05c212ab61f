import { rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import type { ArchiveRecord } from '../../../shared/invocation.ts'
import { ensurePrivateDir } from '../../base/files.ts'
import { findGit } from '../../base/findGit.ts'
import type { Layout } from '../../base/paths.ts'
import { putAway, readArchive, recordsOf } from '../end/archive.ts'
import { asideOf, deleteBranch, removeWorktree } from '../end/checkout.ts'
import { readMaking } from '../make/making.ts'
import { openRepository, type Repository } from '../git/repository.ts'
import { inspectInvocation, inspectWorktree, isFolder } from './scan.ts'

/** A sandbox or an integration worktree without a readable record. */
export type Broken = {
  readonly kind: ArchiveRecord['kind']
  readonly repoId: RepoId
  readonly id: DispatchId
  readonly tree: string
  /** What goes to the archive, and what there is of its record. */
  readonly origin: string
  readonly records: string
}

/** What git knows of a tree that has no record: its repository, and the branch if it is one of ours. */
export type GitOfBroken = { readonly repository: Repository; readonly branch: string | null }

/** Somebody may have been making it just then: asked again under the lock of the project. */
export async function refuseMade(layout: Layout, { kind, repoId, id }: Broken): Promise<void> {
  const { meta } =
    kind === 'worktree'
      ? await inspectWorktree(layout, repoId, id)
      : await inspectInvocation(layout, repoId, id)
  if (meta === null) return
  throw new OrangeryError('workspace.just_made', `${kind} ${id}: it was being made until just now`, {
    kind: 'busy',
    hint: 'Try again: it has a record now.',
  })
}

/** Null: nobody can say whose it is. */
export async function gitOfBroken(layout: Layout, broken: Broken): Promise<GitOfBroken | null> {
  // Cut off after the move: what was noted when the tree still stood.
  const noted = await readArchive(layout, broken.id).catch(() => null)
  if (noted !== null && noted.common_dir !== null && !(await isFolder(broken.tree)))
    return { repository: await openRepository(noted.common_dir), branch: noted.branch }
  const place = await findGit(broken.tree).catch(() => null)
  if (place === null || place.top !== broken.tree || !place.confirmed) return gitOfMaking(broken)
  const repository = await openRepository(place.commonDir)
  const head = await repository.try(['symbolic-ref', '-q', 'HEAD'], { cwd: broken.tree })
  const on = head.stdout.toString().trim().replace('refs/heads/', '')
  return { repository, branch: isBranchOf(broken, on) ? on : null }
}

/** Cut off while it was made or taken back: what was noted before. */
async function gitOfMaking(broken: Broken): Promise<GitOfBroken | null> {
  const making = await readMaking(broken.records)
  if (making === null || !isBranchOf(broken, making.branch) || !(await isFolder(making.common_dir)))
    return null
  return { repository: await openRepository(making.common_dir), branch: making.branch }
}

const isBranchOf = ({ kind, id }: Broken, branch: string): boolean =>
  kind === 'invocation'
    ? branch === `agency/sandbox-${id}`
    : /^agency\/(?!sandbox-)/.test(branch) && branch.endsWith(id.slice(-5))

/** Ends it: what there is goes to the archive, git's side with it. Cut off anywhere, the next attempt goes on. */
export async function putAwayBroken(
  layout: Layout,
  broken: Broken,
  git: GitOfBroken | null,
  why: string,
): Promise<{ archive: string; notes: string[] }> {
  const { kind, repoId, id, tree, origin, records } = broken
  const branch = git?.branch ?? null
  const tip = git === null || branch === null ? null : await git.repository.commit(`refs/heads/${branch}`)
  const isStanding = git !== null && tip !== null && (await isFolder(tree))
  const archive = await putAway(
    layout,
    {
      id,
      repo_id: repoId,
      kind,
      name: '',
      why,
      origin,
      common_dir: git?.repository.commonDir ?? null,
      branch: tip === null ? null : branch,
      tip,
      commit: tip,
      // Half an index is no reason to keep it standing: git's side goes to the archive as it is.
      aside: isStanding ? await asideOf(git.repository, tree, tip).catch(() => ({})) : {},
    },
    tree,
  )
  const notes: string[] = []
  if (git !== null && branch !== null && tip !== null) {
    await removeWorktree(git.repository, tree)
    notes.push(...[await deleteBranch(git.repository, branch, tip)].filter((note) => note !== null))
  }
  // What there is of its record goes along, or it would be found broken again by what is left of it.
  await moveFolder(records, recordsOf(layout, id))
  return { archive, notes }
}

export async function moveFolder(from: string, to: string): Promise<void> {
  if (!(await isFolder(from))) return
  await ensurePrivateDir(dirname(to))
  await rename(from, to)
}
