import { randomBytes } from 'node:crypto'
import { isAbsolute } from 'node:path'
import { realpath } from 'node:fs/promises'
import { OrangeryError } from '../../../shared/errors.ts'
import { makeDispatchId, type DispatchId, type RepoId } from '../../../shared/ids.ts'
import type { InvocationMeta, WorktreeMeta } from '../../base/invocation.ts'
import { createRepoLock } from '../../base/lock.ts'
import { integrationMarker, sandboxMarker } from '../../base/markers.ts'
import type { Layout } from '../../base/paths.ts'
import type { WorkspaceDriver, WorkspaceRoot } from '../../base/workspace.ts'
import { addWorktree, refuseTrackedMarkers } from '../end/checkout.ts'
import { borrowedNotes } from '../git/borrowed.ts'
import { sandboxBranch } from '../git/commits.ts'
import { includeFiles } from './includeFiles.ts'
import { ensureInvocationDir, writeInvocationMeta, secondsIso } from '../find/invocation.ts'
import { forgetMaking, noteMaking } from './making.ts'
import { assertHidden, hasMarker, hideMarkers, putBack, shownNotes, writeMarker } from '../find/marker.ts'
import { submoduleNotes, uncommittedNotes } from '../git/notes.ts'
import { assertSandboxPath } from '../find/pathSafety.ts'
import { identifyProject } from '../find/project.ts'
import { removeTree } from '../end/removeTree.ts'
import { openRepository, type Repository } from '../git/repository.ts'
import { reportToLog, Rollback, type CleanupReport } from './rollback.ts'
import { makeSandboxDir, overlayMount, submodulesOf } from './sandboxFolders.ts'
import { resolveWorktree, scanWorktrees } from '../find/scan.ts'
import { fillSubmodules } from '../git/submodules.ts'
import { acquireUnlessTakenBack, refuseTakenBack } from './takenBack.ts'

/** The steps of seed 2 in their order; `meta` is the last before the commit point. */
export const creationSteps = [
  'invocation_dir',
  'base_commit',
  'sandbox_dir',
  'worktree_add',
  'marker',
  'submodules',
  'include',
  'meta',
] as const
export type CreationStep = (typeof creationSteps)[number]

export type StartAgentOptions = {
  readonly layout: Layout
  /** Name, id or unique prefix of an integration worktree, or the path of its tree. */
  readonly worktree: string
  /** The caller's folder: names of its project come first. */
  readonly near?: string | null
  readonly id?: DispatchId
  readonly name?: string | null
  readonly runner?: string
  readonly mode?: 'headed' | 'headless'
  readonly driver?: WorkspaceDriver
  readonly trusted?: boolean
  /** Called after each step; what it throws is a failure of that step. */
  readonly afterStep?: (step: CreationStep) => Promise<void> | void
  /** Taken back by whoever asked: before the commit point that is a failure like any other. */
  readonly signal?: AbortSignal | undefined
  readonly report?: CleanupReport
}

/**
 * Seed 2's `agent start`: creation only. Resolve, check the marker and the path, then under the project's
 * lock make folder, branch, worktree, marker and record, in this order. The record is the commit point;
 * before it everything is taken back and the first error stands. There is no other way to a sandbox.
 */
export async function startAgent(options: StartAgentOptions): Promise<InvocationMeta> {
  const { layout } = options
  const worktree = await integrationTree(layout, options.worktree, options.near ?? null)
  const repoId = worktree.repo_id as RepoId
  const id = options.id ?? makeDispatchId(new Date(), randomBytes(2))
  const tree = layout.sandboxTree(repoId, id)
  await assertSandboxPath(tree, worktree.tree_path)
  const repository = await openRepository(worktree.common_dir)
  const notes = await uncommittedNotes(repository, [worktree.tree_path, worktree.repo_path])
  notes.push(...(await borrowedNotes(await identifyProject([worktree.tree_path]))))
  const step = async (done: CreationStep) => {
    await options.afterStep?.(done)
    refuseTakenBack(options.signal)
  }

  await using _lock = await acquireUnlessTakenBack(createRepoLock(layout), repoId, options.signal)
  await using rollback = new Rollback(options.report ?? reportToLog(layout))
  await ensureInvocationDir(layout, repoId, id)
  rollback.add('invocation folder', () => removeTree(layout.invocation(repoId, id)))
  await step('invocation_dir')
  const baseCommit = await startingCommit(repository, worktree)
  await step('base_commit')
  await makeSandboxDir(layout.sandbox(repoId, id), id)
  rollback.add('sandbox folder', () => removeTree(layout.sandbox(repoId, id)))
  await step('sandbox_dir')
  await hideMarkers(repository.commonDir)
  notes.push(...(await shownNotes(repository, worktree.tree_path, integrationMarker)))
  const branch = sandboxBranch(id)
  const records = layout.invocation(repoId, id)
  await noteMaking(records, { common_dir: repository.commonDir, branch })
  await addWorktree(repository, { tree, branch, commit: baseCommit, start: worktree.branch, rollback })
  await step('worktree_add')
  await writeMarker(tree, sandboxMarker)
  await assertHidden(repository, tree, sandboxMarker)
  await step('marker')
  const gitDirs = submodulesOf(layout.sandbox(repoId, id))
  const submodules = await fillSubmodules({ repository, tree, commit: baseCommit, gitDirs })
  notes.push(...submoduleNotes(submodules))
  await step('submodules')
  notes.push(...(await includeFiles(repository, worktree.tree_path, tree, options.trusted === true)))
  await step('include')
  const createdAtMs = Date.now()
  const meta: InvocationMeta = {
    schema_version: '1.0',
    invocation_id: id,
    invocation_name: options.name ?? '',
    integration_worktree_id: worktree.worktree_id,
    sandbox_path: tree,
    sandbox_branch: branch,
    base_commit: baseCommit,
    runner: options.runner ?? '',
    mode: options.mode ?? 'headless',
    status: 'starting',
    started_at: secondsIso(createdAtMs),
    strategy: 'worktree',
    driver: options.driver ?? 'kernel-overlay',
    common_dir: worktree.common_dir,
    roots: planWorktreeRoots(worktree, tree, layout.sandbox(repoId, id), submodules.filled.length > 0),
    created_at_ms: createdAtMs,
    ended_at: null,
    notes,
    outcome: null,
    archive: null,
  }
  await writeInvocationMeta(layout, repoId, meta)
  await step('meta')
  await forgetMaking(records)
  rollback.commit()
  return meta
}

/** What a sandbox on this worktree would begin with, or why there can be none. */
async function startingCommit(repository: Repository, worktree: WorktreeMeta): Promise<string> {
  const commit = await repository.commit(`refs/heads/${worktree.branch}`)
  if (commit === null) throw branchGone(worktree)
  await refuseTrackedMarkers(repository, commit)
  return commit
}

/** Asked before there is a record of anything: a sandbox that cannot be made is bad input, and not our fault. */
export const assertStartable = async (worktree: WorktreeMeta): Promise<void> =>
  void (await startingCommit(await openRepository(worktree.common_dir), worktree))

/**
 * The agent works at the sandbox tree's own path, on an overlay of it, so that review compares with an
 * untouched checkout; what is approved lands in the integration tree. The common `.git` is an overlay of its
 * own: commits work inside, and the real one is never written. So are the repositories of its submodules. Pure.
 */
export function planWorktreeRoots(
  worktree: WorktreeMeta,
  tree: string,
  sandboxDir: string,
  hasSubmodules: boolean,
): WorkspaceRoot[] {
  const git = (path: string, name: string, index: number): WorkspaceRoot => ({
    path,
    target: path,
    name,
    role: 'git',
    access: 'rw',
    mount: overlayMount(path, sandboxDir, index),
  })
  return [
    {
      path: worktree.tree_path,
      target: tree,
      name: worktree.name,
      role: 'project',
      access: 'rw',
      mount: overlayMount(tree, sandboxDir, 0),
    },
    git(worktree.common_dir, '.git', 1),
    ...(hasSubmodules ? [git(submodulesOf(sandboxDir), '.git-2', 2)] : []),
  ]
}

/** What of the user's work will not be in a sandbox made from this worktree now. */
export async function worktreeNotes({ common_dir, tree_path, repo_path }: WorktreeMeta): Promise<string[]> {
  return uncommittedNotes(await openRepository(common_dir), [tree_path, repo_path])
}

/** The integration worktree a name, id, prefix or path stands for; it must carry the marker. */
export async function integrationTree(
  layout: Layout,
  reference: string,
  near: string | null = null,
): Promise<WorktreeMeta> {
  const meta = isAbsolute(reference)
    ? await byPath(layout, reference)
    : (await resolveWorktree(layout, reference, near === null ? null : await repoIdNear(near))).meta
  if (meta === null) {
    throw new OrangeryError('workspace.worktree_broken', `worktree ${reference}: its record cannot be read`, {
      kind: 'input',
      hint: '`orangery worktree ls --all` says what is wrong with it.',
    })
  }
  if (await hasMarker(meta.tree_path, integrationMarker)) return meta
  throw notIntegration(
    meta.tree_path,
    `If it is the tree of ${meta.name}, put it back: ${putBack(meta.tree_path, integrationMarker)}`,
  )
}

/** The project a folder belongs to, or null where there is none. */
export async function repoIdNear(folder: string): Promise<RepoId | null> {
  return identifyProject([folder]).then(
    (project) => project.repoId,
    () => null,
  )
}

async function byPath(layout: Layout, path: string): Promise<WorktreeMeta> {
  const real = await realpath(path).catch(() => path)
  for (const { meta } of await scanWorktrees(layout)) {
    if (meta !== null && meta.outcome === null && (await realpath(meta.tree_path).catch(() => null)) === real)
      return meta
  }
  throw notIntegration(path)
}

function branchGone({ name, branch, tree_path: tree }: WorktreeMeta): OrangeryError {
  return new OrangeryError('workspace.branch_gone', `worktree ${name}: its branch ${branch} is gone`, {
    kind: 'input',
    hint: `Give it its name back: git -C ${tree} branch -m ${branch}`,
  })
}

function notIntegration(
  tree: string,
  hint = 'Make one: orangery worktree create --repo DIR --name NAME',
): OrangeryError {
  return new OrangeryError(
    'workspace.not_integration_tree',
    `${tree}: not an integration worktree (${integrationMarker} is missing)`,
    { kind: 'input', hint },
  )
}
