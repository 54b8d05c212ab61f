import { randomBytes } from 'node:crypto'
import { lstat, mkdir } from 'node:fs/promises'
import { OrangeryError } from '../../../shared/errors.ts'
import { makeDispatchId, type DispatchId, type RepoId } from '../../../shared/ids.ts'
import { ensurePrivateDir, writeFileAtomically } from '../../base/files.ts'
import type { WorktreeEntry, WorktreeMeta } from '../../base/invocation.ts'
import { createRepoLock } from '../../base/lock.ts'
import { integrationMarker } from '../../base/markers.ts'
import type { Layout } from '../../base/paths.ts'
import { addWorktree, refuseTrackedMarkers } from '../end/checkout.ts'
import { includeFiles } from './includeFiles.ts'
import { secondsIso } from '../find/invocation.ts'
import { forgetMaking, noteMaking } from './making.ts'
import { assertHidden, hideMarkers, writeMarker } from '../find/marker.ts'
import { submoduleNotes, uncommittedNotes } from '../git/notes.ts'
import { identifyProject, requireGit, type Project } from '../find/project.ts'
import { removeTree } from '../end/removeTree.ts'
import { openRepository, type Repository } from '../git/repository.ts'
import { reportToLog, Rollback, type CleanupReport } from './rollback.ts'
import { submodulesOf } from './sandboxFolders.ts'
import { scanWorktrees } from '../find/scan.ts'
import { fillSubmodules } from '../git/submodules.ts'
import { acquireUnlessTakenBack, refuseTakenBack } from './takenBack.ts'

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
  /** Taken back by whoever asked: before the commit point that is a failure like any other. */
  readonly signal?: AbortSignal | undefined
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
  const step = async (done: WorktreeStep) => {
    await options.afterStep?.(done)
    refuseTakenBack(options.signal)
  }
  await ensurePrivateDir(layout.worktrees(repoId))

  await using _lock = await acquireUnlessTakenBack(createRepoLock(layout), repoId, options.signal)
  await using rollback = new Rollback(options.report ?? reportToLog(layout))
  await refuseTakenName(layout, repoId, name)
  const id = await makeFolder(layout, repoId)
  const tree = layout.worktreeTree(repoId, id)
  rollback.add('worktree folder', () => removeTree(layout.worktree(repoId, id)))
  await step('folder')
  await hideMarkers(repository.commonDir)
  const branch = `agency/${name}-${id.slice(-4)}`
  const records = layout.worktree(repoId, id)
  await noteMaking(records, { common_dir: repository.commonDir, branch })
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
  await forgetMaking(records)
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

export async function refuseTakenName(layout: Layout, repoId: RepoId, name: string): Promise<void> {
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
