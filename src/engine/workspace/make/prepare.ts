import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import { rootModes, type RootMode, type RootModes, type WorkspaceStrategy } from '../../../shared/spec.ts'
import { ensurePrivateDir } from '../../base/files.ts'
import type { InvocationMeta } from '../../base/invocation.ts'
import type { Layout } from '../../base/paths.ts'
import {
  besideRoots,
  modeOf,
  type Workspace,
  type WorkspaceDriver,
  type WorkspaceRoot,
} from '../../base/workspace.ts'
import { claimCopying, type CutOff } from '../find/claim.ts'
import { afterCopies } from './clone.ts'
import { enterInvocation } from './enter.ts'
import { headCommit } from '../../base/findGit.ts'
import {
  ensureInvocationDir,
  readInvocationMeta,
  workspaceOf,
  writeInvocationMeta,
  secondsIso,
} from '../find/invocation.ts'
import { integrationTreeAbove } from '../find/marker.ts'
import { gitBeside, type Project, type ProjectRoot } from '../find/project.ts'
import { removeTree } from '../end/removeTree.ts'
import { isSandboxTree, isTangled } from '../find/roots.ts'
import { reportToLog, Rollback } from './rollback.ts'
import { makeRoot, makeSandboxDir, overlayMount } from './sandboxFolders.ts'
import { startAgent } from './startAgent.ts'

export type PrepareOptions = {
  readonly id: DispatchId
  readonly project: Project
  readonly strategy: WorkspaceStrategy
  readonly driver: WorkspaceDriver
  /** Left out: the agent may write every root. */
  readonly modes?: RootModes | undefined
  readonly layout: Layout
  readonly name: string | null
  readonly runner: string
  readonly mode: 'headed' | 'headless'
  /** The user trusts the repository: a worktree honours its `.worktreeinclude`. */
  readonly trusted?: boolean
  /** Nothing is copied by halves either. */
  readonly cutOff?: CutOff | undefined
}

/** Where each root lies in a workspace of this driver. Pure. */
export function planRoots(
  project: Project,
  driver: WorkspaceDriver,
  modes: RootModes | undefined,
  sandboxDir: string,
): WorkspaceRoot[] {
  const places = [
    ...project.roots.map((root) => ({ ...root, role: 'project' as const, access: modeOf(root, modes) })),
    ...gitRoots(project.roots, driver, modes),
  ]
  return places.map(({ path, target, name, role, access }, index) => {
    const mount: WorkspaceRoot['mount'] =
      driver === 'kernel-overlay' || driver === 'fuse-overlayfs'
        ? overlayMount(path, sandboxDir, index)
        : {
            kind: 'bind',
            source: driver === 'direct' ? path : join(sandboxDir, 'roots', String(index), 'copy'),
          }
    return { path, target, name, role, access, mount }
  })
}

/** Common git folders that linked worktrees among the roots need besides, each once. */
function gitRoots(
  roots: readonly ProjectRoot[],
  driver: WorkspaceDriver,
  modes: RootModes | undefined,
): { path: string; target: string; name: string; role: 'git'; access: RootMode }[] {
  const folders = new Map<string, RootMode>()
  for (const root of roots) {
    const commonDir = gitBeside(root, roots)
    if (commonDir === null) continue
    // Who may write one of its checkouts may commit.
    const wider = new Set([folders.get(commonDir), modeOf(root, modes)])
    folders.set(commonDir, rootModes.find((mode) => wider.has(mode)) ?? 'hidden')
  }
  return [...folders].map(([path, access], index) => ({
    path,
    access: besideRoots(driver, access),
    target: path,
    name: index === 0 ? '.git' : `.git-${index + 1}`,
    role: 'git' as const,
  }))
}

/**
 * Makes the record and the folders of one workspace. The order is seed 2's: the invocation's folder first
 * and exclusively, then the sandbox, then `meta.json` as the commit point. Whatever fails before that takes
 * everything back and leaves the first error standing. The record is not waited for to be on the disk:
 * `syncInvocation` before anything runs.
 */
export async function prepareWorkspace(options: PrepareOptions): Promise<Workspace> {
  const { id, project, strategy, driver, modes, layout } = options
  const { repoId } = project
  const dir = layout.sandbox(repoId, id)
  if (strategy === 'worktree') return prepareWorktree(options)
  const isCopy = driver === 'reflink-copy' || driver === 'plain-copy'
  const roots = planRoots(project, driver, modes, dir)
  const { cutOff } = options
  await using _copying = isCopy ? await claimCopying(layout, { repoId, id }, copied(roots), { cutOff }) : null
  const base = baseOf(project)
  base.catch(() => {})
  await refuseTangledRoots(project, layout)
  if (strategy === 'none') await refuseIntegrationTrees(project, layout)
  const createdAtMs = Date.now()

  await using rollback = new Rollback(reportToLog(layout))
  await ensureInvocationDir(layout, repoId, id)
  rollback.add('invocation folder', () => removeTree(layout.invocation(repoId, id)))
  await makeSandboxDir(dir, id)
  rollback.add('sandbox folder', () => removeTree(dir))
  await Promise.all(roots.filter(({ access }) => access !== 'hidden').map((root) => makeRoot(root, driver)))
  const meta: InvocationMeta = {
    schema_version: '1.0',
    invocation_id: id,
    invocation_name: options.name ?? '',
    integration_worktree_id: null,
    sandbox_path: dir,
    sandbox_branch: null,
    base_commit: await base,
    runner: options.runner,
    mode: options.mode,
    status: 'starting',
    started_at: secondsIso(createdAtMs),
    strategy,
    driver,
    common_dir: project.commonDir,
    roots,
    created_at_ms: createdAtMs,
    ...(isCopy ? { copied_at_ms: await afterCopies(dir) } : {}),
    ended_at: null,
    notes: [],
    outcome: null,
    archive: null,
  }
  await writeInvocationMeta(layout, repoId, meta, 'nothing')
  rollback.commit()
  return workspaceOf(layout, repoId, meta)
}

const copied = (roots: readonly WorkspaceRoot[]): string[] =>
  roots.filter(({ access }) => access !== 'hidden').map(({ path }) => path)

async function baseOf(project: Project): Promise<string | null> {
  const { git } = project.roots[0]
  return git === null ? null : headCommit(git)
}

/** The first root must be an integration tree; the sandbox is made from its branch. */
async function prepareWorktree(options: PrepareOptions): Promise<Workspace> {
  const { id, layout, name, runner, mode, driver, modes, project } = options
  const [root, ...others] = project.roots
  if (others.length > 0) {
    throw new OrangeryError(
      'workspace.worktree_one_root',
      'worktree: it has one root, and several were named',
      {
        kind: 'input',
        hint: 'Use the overlay strategy for several roots.',
      },
    )
  }
  const trusted = options.trusted === true
  await startAgent({ layout, worktree: root.path, id, name, runner, mode, driver, trusted })
  return enterInvocation(layout, project.repoId, id, { modes })
}

// Without a changeset every write is final, and an integration tree is written by no agent. (invariant 1)
async function refuseIntegrationTrees(project: Project, layout: Layout): Promise<void> {
  const dataDir = realpathSync(layout.dataDir)
  for (const root of project.roots) {
    const isOurs = isSandboxTree(root.path, dataDir) || (await integrationTreeAbove(root.path)) !== null
    if (!isOurs) continue
    throw new OrangeryError(
      'workspace.integration_tree',
      `${root.target}: an integration or sandbox tree is never written directly`,
      {
        kind: 'refused',
        hint: 'Use the worktree or the overlay strategy.',
      },
    )
  }
}

export async function loadWorkspace(layout: Layout, repoId: RepoId, id: DispatchId): Promise<Workspace> {
  return workspaceOf(layout, repoId, await readInvocationMeta(layout, repoId, id))
}

// The kernel accepts an upper layer inside its own lower layer and then shows the agent our records.
async function refuseTangledRoots(project: Project, layout: Layout): Promise<void> {
  await ensurePrivateDir(layout.dataDir)
  const dataDir = realpathSync(layout.dataDir)
  for (const root of project.roots) {
    if (!isTangled(root.path, dataDir)) continue
    throw new OrangeryError(
      'workspace.root_contains_data_dir',
      `${root.target}: it overlaps Orangery's data folder ${dataDir}`,
      { kind: 'input', hint: 'Name a narrower folder, or set ORANGERY_DATA_DIR to a folder outside of it.' },
    )
  }
}
