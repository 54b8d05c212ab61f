import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import type { ArchiveRecord, Stakes } from '../../../shared/invocation.ts'
import type { WorktreeMeta } from '../../base/invocation.ts'
import { createRepoLock } from '../../base/lock.ts'
import type { Layout } from '../../base/paths.ts'
import { contentOf, putAway, recordsOf, takeBack, type PutAway } from './archive.ts'
import { gitOfBroken, moveFolder, putAwayBroken, refuseMade, type Broken } from '../find/broken.ts'
import { asideOf, deleteBranch, removeWorktree, snapshotCommit, treeHead } from './checkout.ts'
import { claimLanding, listRunningOn } from '../find/claim.ts'
import { adminOf } from '../git/gitSide.ts'
import { refuseLinked, refuseMounts } from '../find/mounts.ts'
import { refuseWorktreesIn } from '../git/nested.ts'
import { reattachWorktree, type AfterRestoreStep } from './reattach.ts'
import { openRepository } from '../git/repository.ts'
import { inspectWorktree, isFolder, resolveWorktree, scanInvocations } from '../find/scan.ts'
import { stakesIn, stakesOf, stakesWithoutTree } from './stakes.ts'
import { refuseTakenName, writeWorktreeMeta } from '../make/worktree.ts'

/**
 * Removes an integration worktree. Work in it that is nowhere else needs `force` and is named; with or
 * without it tree and branch go to the archive, never away.
 */
export async function removeIntegration(
  layout: Layout,
  reference: string,
  options: { readonly force?: boolean; readonly near?: RepoId | null } = {},
): Promise<{ id: DispatchId; archive: string; stakes: Stakes; notes?: string[] }> {
  const entry = await resolveWorktree(layout, reference, options.near ?? null)
  const { meta } = entry
  const repoId = entry.repo_id as RepoId
  const id = entry.id as DispatchId
  if (meta !== null && meta.outcome !== null) {
    throw new OrangeryError('workspace.worktree_broken', `worktree ${id}: it was removed already`, {
      kind: 'input',
      hint: 'It is left as it is.',
    })
  }
  const tree = meta?.tree_path ?? layout.worktreeTree(repoId, id)
  await using _lock = await createRepoLock(layout).acquire(repoId)
  await refuseInUse(layout, id, tree)
  // No agent starts on the folder while it goes.
  await using _claim = await claimLanding(layout, { id, paths: [tree] })
  await refuseLinked(tree)
  await refuseMounts(tree)
  await refuseWorktreesIn(tree, meta?.common_dir ?? null)
  if (meta === null) return await removeBroken(layout, repoId, id, options.force === true)
  if (!(await isFolder(meta.common_dir))) return await removeAlone(layout, meta, options.force === true)
  const isStanding = await isFolder(meta.tree_path)
  const stakes = await (isStanding ? stakesOf(meta) : stakesWithoutTree(meta))
  if (options.force !== true && isAnything(stakes)) throw atStake(meta.name, stakes)
  const repository = await openRepository(meta.common_dir)
  // A branch that the user renamed is theirs and stays; its commit is still what the tree was on.
  const tip =
    (await repository.commit(`refs/heads/${meta.branch}`)) ??
    (isStanding ? await treeHead(repository, meta.tree_path) : null)
  const hasWork = isStanding && tip !== null
  const aside = hasWork ? await asideOf(repository, meta.tree_path, tip) : {}
  const snapshot = hasWork ? await snapshotCommit(repository, meta.tree_path, tip) : null
  const record: PutAway = {
    id,
    repo_id: repoId,
    kind: 'worktree',
    name: meta.name,
    why: 'removed',
    origin: meta.tree_path,
    common_dir: meta.common_dir,
    branch: meta.branch,
    tip,
    commit: snapshot?.commit ?? tip,
    aside,
  }
  const archive = await putAway(layout, record, meta.tree_path)
  await removeWorktree(repository, meta.tree_path)
  const stays = tip === null ? null : await deleteBranch(repository, meta.branch, tip)
  await writeWorktreeMeta(layout, { ...meta, outcome: 'removed', archive })
  const notes = [...(snapshot?.notes ?? []), ...(stays === null ? [] : [stays])]
  return { id, archive, stakes, ...(notes.length === 0 ? {} : { notes }) }
}

/** Its making was cut off, or its record is torn: what git says of the tree counts, and all of it goes to the archive. */
async function removeBroken(layout: Layout, repoId: RepoId, id: DispatchId, force: boolean) {
  const tree = layout.worktreeTree(repoId, id)
  const records = layout.worktree(repoId, id)
  const broken: Broken = { kind: 'worktree', repoId, id, tree, origin: tree, records }
  await refuseMade(layout, broken)
  const git = await gitOfBroken(layout, broken)
  const isStanding = await isFolder(tree)
  const branch = git?.branch ?? null
  const place = git === null || branch === null ? null : { commonDir: git.repository.commonDir, tree, branch }
  const known = place === null ? null : await stakesIn({ ...place, base: null }).catch(() => null)
  const stakes = known ?? nothing
  if (!force && isAnything(stakes)) throw atStake(id, stakes)
  if (!force && isStanding && known === null) {
    throw new OrangeryError(
      'workspace.work_at_stake',
      `worktree ${id}: it has no record, so nobody can say what it holds`,
      {
        kind: 'refused',
        hint: `Look at ${tree}, or say --force: the files are then kept in the archive for 30 days.`,
      },
    )
  }
  return { id, stakes, ...(await putAwayBroken(layout, broken, git, 'removed, broken')) }
}

/** The repository is gone: nobody can say what of the tree is elsewhere, and there is no git to tidy. */
async function removeAlone(layout: Layout, meta: WorktreeMeta, force: boolean) {
  if (!force) {
    throw new OrangeryError(
      'workspace.work_at_stake',
      `worktree ${meta.name}: its repository ${meta.common_dir} is gone, so nobody can say what it holds`,
      {
        kind: 'refused',
        hint: 'Put the repository back, or say --force: the files are then kept in the archive for 30 days.',
      },
    )
  }
  const id = meta.worktree_id
  const archive = await putAway(layout, {
    id,
    repo_id: meta.repo_id,
    kind: 'worktree',
    name: meta.name,
    why: 'removed, its repository is gone',
    origin: meta.tree_path,
    common_dir: meta.common_dir,
    branch: meta.branch,
    tip: null,
    commit: null,
  })
  await writeWorktreeMeta(layout, { ...meta, outcome: 'removed', archive })
  return { id, archive, stakes: nothing }
}

export async function restoreWorktree(
  layout: Layout,
  record: ArchiveRecord,
  after: AfterRestoreStep,
): Promise<void> {
  const { id, common_dir: commonDir, branch, tip, origin: tree } = record
  const repoId = record.repo_id as RepoId
  await using _lock = await createRepoLock(layout).acquire(repoId)
  // One that was broken comes back as broken as it was.
  await moveFolder(recordsOf(layout, id), layout.worktree(repoId, id))
  const { meta } = await inspectWorktree(layout, repoId, id)
  if (meta !== null) await refuseTakenName(layout, repoId, meta.name)
  if (commonDir !== null && branch !== null && tip !== null)
    await reattachWorktree(layout, await openRepository(commonDir), { ...record, branch, tip }, tree, after)
  else if (meta !== null) await restoreAlone(layout, record, meta, after)
  else await takeBack(layout, record)
  if (meta !== null) await writeWorktreeMeta(layout, { ...meta, outcome: null, archive: null })
}

/** It was put away while its repository was gone, so git has its side still, unless it was pruned meanwhile. */
async function restoreAlone(
  layout: Layout,
  record: ArchiveRecord,
  meta: WorktreeMeta,
  after: AfterRestoreStep,
): Promise<void> {
  const { branch, common_dir: commonDir, tree_path: tree } = meta
  const isThere = await isFolder(commonDir)
  if (!isThere || (await adminOf(commonDir, tree)) !== null) {
    await takeBack(layout, record)
    return await after('content')
  }
  const repository = await openRepository(commonDir)
  const tip = await repository.commit(`refs/heads/${branch}`)
  if (tip === null)
    throw blocked(layout, record, `its branch ${branch} is not in ${commonDir} any more, nor known there`)
  await reattachWorktree(layout, repository, { ...record, branch, tip }, tree, after)
}

function blocked(layout: Layout, { id }: ArchiveRecord, why: string): OrangeryError {
  return new OrangeryError('workspace.restore_blocked', `worktree ${id}: ${why}`, {
    kind: 'input',
    hint: `Its files are in ${contentOf(layout, id)}.`,
  })
}

async function refuseInUse(layout: Layout, id: DispatchId, tree: string): Promise<void> {
  const sandboxes = (await scanInvocations(layout)).filter(
    ({ meta }) => meta?.integration_worktree_id === id && meta.outcome === null,
  )
  const running = await listRunningOn(layout, id, [tree])
  const users = [...sandboxes, ...running]
  if (users.length === 0) return
  throw new OrangeryError(
    'workspace.worktree_in_use',
    `worktree ${id}: ${users.map((user) => user.id).join(', ')} ${users.length === 1 ? 'works' : 'work'} from it`,
    {
      kind: 'busy',
      hint:
        sandboxes.length > 0 ? 'Land or discard them first.' : 'Wait until they have ended, or stop them.',
    },
  )
}

function atStake(name: string, stakes: Stakes): OrangeryError {
  const parts = [
    stakes.unmerged.length === 0
      ? null
      : `${counted(stakes.unmerged, 'commit')} on no other branch (${some(stakes.unmerged)})`,
    stakes.uncommitted.length === 0
      ? null
      : `${counted(stakes.uncommitted, 'uncommitted file')} (${some(stakes.uncommitted)})`,
    stakes.unfinished.length === 0 ? null : stakes.unfinished.join(' and '),
    stakes.ignored.length === 0 ? null : `what git ignores (${some(stakes.ignored)})`,
  ].filter((part) => part !== null)
  return new OrangeryError('workspace.work_at_stake', `worktree ${name}: it holds ${parts.join(' and ')}`, {
    kind: 'refused',
    hint: 'Merge or move it, or say --force: everything is then kept in the archive for 30 days.',
    details: stakes,
  })
}

const isAnything = (stakes: Stakes): boolean => Object.values(stakes).some((each) => each.length > 0)
const nothing: Stakes = { uncommitted: [], unmerged: [], unfinished: [], ignored: [] }

const counted = (list: readonly string[], what: string): string =>
  `${list.length} ${what}${list.length === 1 ? '' : 's'}`
const some = (list: readonly string[]): string => list.slice(0, 3).join(', ') + (list.length > 3 ? ', …' : '')
