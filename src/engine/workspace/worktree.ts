import { randomBytes } from 'node:crypto'
import { lstat, mkdir } from 'node:fs/promises'
import { OrangeryError } from '../../shared/errors.ts'
import { makeDispatchId, type DispatchId, type RepoId } from '../../shared/ids.ts'
import type { ArchiveRecord, Stakes } from '../../shared/invocation.ts'
import { ensurePrivateDir, writeFileAtomically } from '../base/files.ts'
import type { WorktreeEntry, WorktreeMeta } from '../base/invocation.ts'
import { createRepoLock } from '../base/lock.ts'
import { integrationMarker } from '../base/markers.ts'
import type { Layout } from '../base/paths.ts'
import { contentOf, putAway, takeBack, type PutAway } from './archive.ts'
import {
  addWorktree,
  asideOf,
  deleteBranch,
  refuseTrackedMarkers,
  removeWorktree,
  snapshotCommit,
  treeHead,
} from './checkout.ts'
import { claimLanding, listRunningOn } from './claim.ts'
import { adminOf } from './gitSide.ts'
import { includeFiles } from './includeFiles.ts'
import { assertHidden, hideMarkers, writeMarker } from './marker.ts'
import { refuseLinked, refuseMounts } from './mounts.ts'
import { submoduleNotes, uncommittedNotes } from './notes.ts'
import { identifyProject, requireGit, type Project } from './project.ts'
import { reattachWorktree, type AfterRestoreStep } from './reattach.ts'
import { removeTree } from './removeTree.ts'
import { openRepository, type Repository } from './repository.ts'
import { reportToLog, Rollback, type CleanupReport } from './rollback.ts'
import { secondsIso, submodulesOf } from './sandboxFolders.ts'
import { stakesOf, stakesWithoutTree } from './stakes.ts'
import { fillSubmodules } from './submodules.ts'
import { isFolder, resolveWorktree, scanInvocations, scanWorktrees } from './scan.ts'

export const worktreeSteps = ['folder', 'worktree_add', 'marker', 'submodules', 'include', 'meta'] as const
export type WorktreeStep = (typeof worktreeSteps)[number]

export type CreateWorktreeOptions = {
  readonly layout: Layout
  /** A folder of the repository. */
  readonly repo: string
  readonly name: string
  /** What to start from; the repository's HEAD unless named. */
  readonly base?: string | undefined
  /** The user trusts the repository: `.worktreeinclude` is honoured. */
  readonly trusted?: boolean
  /** Called after each step; what it throws is a failure of that step. */
  readonly afterStep?: (step: WorktreeStep) => Promise<void> | void
  readonly report?: CleanupReport
}

const namePattern = /^[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.|lock-|lock$)){0,63}$/

export async function createWorktree(options: CreateWorktreeOptions): Promise<WorktreeMeta> {
  const { layout, name } = options
  refuseName(name)
  const project = await identifyProject([options.repo])
  const repository = await openRepository(await requireGit(project))
  const { repoId } = project
  const baseCommit = await requireCommit(repository, project, options.base)
  await refuseTrackedMarkers(repository, baseCommit)
  const notes = await uncommittedNotes(repository, [project.roots[0].git?.top ?? null])
  const step = async (done: WorktreeStep) => options.afterStep?.(done)
  await ensurePrivateDir(layout.worktrees(repoId))

  await using _lock = await createRepoLock(layout).acquire(repoId)
  await using rollback = new Rollback(options.report ?? reportToLog(layout))
  await refuseTakenName(layout, repoId, name)
  const id = await makeFolder(layout, repoId)
  const tree = layout.worktreeTree(repoId, id)
  rollback.add('worktree folder', () => removeTree(layout.worktree(repoId, id)))
  await step('folder')
  await hideMarkers(repository.commonDir)
  const branch = `agency/${name}-${id.slice(-4)}`
  await addWorktree(repository, { tree, branch, commit: baseCommit, start: baseCommit, rollback })
  await step('worktree_add')
  await writeMarker(tree, integrationMarker)
  await assertHidden(repository, tree, integrationMarker)
  await step('marker')
  const gitDirs = submodulesOf(layout.worktree(repoId, id))
  notes.push(...submoduleNotes(await fillSubmodules({ repository, tree, commit: baseCommit, gitDirs })))
  await step('submodules')
  const from = project.roots[0].git?.top ?? null
  if (from !== null) notes.push(...(await includeFiles(repository, from, tree, options.trusted === true)))
  await step('include')
  const meta: WorktreeMeta = {
    schema_version: '1.0',
    worktree_id: id,
    name,
    repo_id: repoId,
    common_dir: repository.commonDir,
    repo_path: project.roots[0].path,
    branch,
    base_commit: baseCommit,
    tree_path: tree,
    created_at: secondsIso(Date.now()),
    notes,
    outcome: null,
    archive: null,
  }
  await writeWorktreeMeta(layout, meta)
  await step('meta')
  rollback.commit()
  return meta
}

export async function listWorktrees(
  layout: Layout,
  options: { all?: boolean } = {},
): Promise<WorktreeEntry[]> {
  const entries = await scanWorktrees(layout)
  return options.all === true
    ? entries
    : entries.filter((entry) => !entry.broken && entry.meta?.outcome === null)
}

export async function writeWorktreeMeta(layout: Layout, meta: WorktreeMeta): Promise<void> {
  const path = layout.worktreeMeta(meta.repo_id as RepoId, meta.worktree_id)
  await writeFileAtomically(path, `${JSON.stringify(meta, null, 2)}\n`)
}

async function requireCommit(
  repository: Repository,
  project: Project,
  base: string | undefined,
): Promise<string> {
  // HEAD of the checkout that was named, which in a linked worktree is not HEAD of the repository.
  const gitDir = project.roots[0].git?.gitDir ?? repository.commonDir
  const found = await repository.try(
    ['rev-parse', '-q', '--verify', '--end-of-options', `${base ?? 'HEAD'}^{commit}`],
    { cwd: gitDir, env: { GIT_DIR: gitDir } },
  )
  if (found.code === 0) return found.stdout.toString().trim()
  throw new OrangeryError(
    'workspace.no_base',
    base === undefined
      ? `${project.roots[0].target}: the repository has no commit yet`
      : `base ${base}: the repository has no such commit`,
    {
      kind: 'input',
      hint: base === undefined ? 'Commit something first.' : 'Name a branch, a tag or a commit.',
    },
  )
}

export function refuseName(name: string): void {
  const reserved = /^sandbox(-|$)/.test(name)
  if (!reserved && namePattern.test(name)) return
  throw new OrangeryError(
    'workspace.bad_name',
    reserved
      ? `name ${name}: names of sandboxes are reserved`
      : `name ${JSON.stringify(name)}: not usable as a branch`,
    { kind: 'input', hint: 'Use letters, digits, dots, dashes and underscores, at most 64 of them.' },
  )
}

async function refuseTakenName(layout: Layout, repoId: RepoId, name: string): Promise<void> {
  const taken = (await listWorktrees(layout)).find(
    (entry) => entry.repo_id === repoId && entry.meta?.name === name,
  )
  if (taken === undefined) return
  throw new OrangeryError('workspace.name_taken', `worktree ${name}: ${taken.id} has this name already`, {
    kind: 'cannot_create',
    hint: 'Choose another name, or remove that one.',
  })
}

async function makeFolder(layout: Layout, repoId: RepoId): Promise<DispatchId> {
  for (;;) {
    const id = makeDispatchId(new Date(), randomBytes(2))
    // An archived worktree keeps its record here, so that its id is not given away again.
    if ((await lstat(layout.worktree(repoId, id)).catch(() => null)) !== null) continue
    await mkdir(layout.worktree(repoId, id), { mode: 0o700 })
    return id
  }
}

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
  if (meta === null || meta.outcome !== null) {
    throw new OrangeryError(
      'workspace.worktree_broken',
      `worktree ${entry.id}: ${meta === null ? (entry.why ?? 'it is broken') : 'it was removed already'}`,
      {
        kind: 'input',
        hint: 'It is left as it is.',
      },
    )
  }
  const repoId = entry.repo_id as RepoId
  const id = meta.worktree_id
  await using _lock = await createRepoLock(layout).acquire(repoId)
  await refuseInUse(layout, meta)
  // No agent starts on the folder while it goes.
  await using _claim = await claimLanding(layout, { id, paths: [meta.tree_path] })
  await refuseLinked(meta.tree_path)
  await refuseMounts(meta.tree_path)
  if (!(await isFolder(meta.common_dir))) return await removeAlone(layout, meta, options.force === true)
  const isStanding = await isFolder(meta.tree_path)
  const stakes = await (isStanding ? stakesOf(meta) : stakesWithoutTree(meta))
  const isAtStake = Object.values(stakes).some((each) => each.length > 0)
  if (options.force !== true && isAtStake) throw atStake(meta, stakes)
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
  return { id, archive, stakes: { uncommitted: [], unmerged: [], unfinished: [], ignored: [] } }
}

export async function restoreWorktree(
  layout: Layout,
  record: ArchiveRecord,
  after: AfterRestoreStep,
): Promise<void> {
  const { meta } = await resolveWorktree(layout, record.id)
  if (meta === null) throw blocked(layout, record, 'its record is not whole')
  await using _lock = await createRepoLock(layout).acquire(record.repo_id)
  await refuseTakenName(layout, record.repo_id as RepoId, meta.name)
  const { common_dir: commonDir, branch, tip } = record
  if (commonDir !== null && branch !== null && tip !== null)
    await reattachWorktree(
      layout,
      await openRepository(commonDir),
      { ...record, branch, tip },
      meta.tree_path,
      after,
    )
  else await restoreAlone(layout, record, meta, after)
  await writeWorktreeMeta(layout, { ...meta, outcome: null, archive: null })
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

async function refuseInUse(layout: Layout, worktree: WorktreeMeta): Promise<void> {
  const id = worktree.worktree_id
  const sandboxes = (await scanInvocations(layout)).filter(
    ({ meta }) => meta?.integration_worktree_id === id && meta.outcome === null,
  )
  const running = await listRunningOn(layout, id, [worktree.tree_path])
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

function atStake(meta: WorktreeMeta, stakes: Stakes): OrangeryError {
  const parts = [
    stakes.unmerged.length === 0
      ? null
      : `${stakes.unmerged.length} commits that are on no other branch (${some(stakes.unmerged)})`,
    stakes.uncommitted.length === 0
      ? null
      : `${stakes.uncommitted.length} uncommitted files (${some(stakes.uncommitted)})`,
    stakes.unfinished.length === 0 ? null : stakes.unfinished.join(' and '),
    stakes.ignored.length === 0 ? null : `what git ignores (${some(stakes.ignored)})`,
  ].filter((part) => part !== null)
  return new OrangeryError(
    'workspace.work_at_stake',
    `worktree ${meta.name}: it holds ${parts.join(' and ')}`,
    {
      kind: 'refused',
      hint: 'Merge or move it, or say --force: everything is then kept in the archive for 30 days.',
      details: stakes,
    },
  )
}

const some = (list: readonly string[]): string => list.slice(0, 3).join(', ') + (list.length > 3 ? ', …' : '')
