import { chmod, mkdir, realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { OrangeryError } from '../../shared/errors.ts'
import type { DispatchId, RepoId } from '../../shared/ids.ts'
import type { WorkspaceStrategy } from '../../shared/spec.ts'
import { ensurePrivateDir } from '../base/files.ts'
import type { InvocationMeta } from '../base/invocation.ts'
import type { Layout } from '../base/paths.ts'
import type { RootAccess, Workspace, WorkspaceDriver, WorkspaceRoot } from '../base/workspace.ts'
import { copyTree } from './clone.ts'
import { ensureInvocationDir, readInvocationMeta, writeInvocationMeta } from './invocation.ts'
import type { Project, ProjectRoot } from './project.ts'
import { removeTree } from './removeTree.ts'
import { isTangled } from './roots.ts'
import { reportToLog, Rollback } from './rollback.ts'

export type PrepareOptions = {
  readonly id: DispatchId
  readonly project: Project
  readonly strategy: WorkspaceStrategy
  readonly driver: WorkspaceDriver
  readonly access: RootAccess
  readonly layout: Layout
  readonly name: string | null
  readonly runner: string
  readonly mode: 'headed' | 'headless'
}

/** Where each root lies in a workspace of this driver. Pure. */
export function planRoots(
  project: Project,
  driver: WorkspaceDriver,
  access: RootAccess,
  sandboxDir: string,
): WorkspaceRoot[] {
  const places = [
    ...project.roots.map((root) => ({ ...root, role: 'project' as const })),
    ...gitRoots(project.roots),
  ]
  return places.map(({ path, target, name, role }, index) => {
    const dir = join(sandboxDir, 'roots', String(index))
    const mount: WorkspaceRoot['mount'] =
      driver === 'kernel-overlay' || driver === 'fuse-overlayfs'
        ? { kind: 'overlay', lower: path, upper: join(dir, 'upper'), work: join(dir, 'work') }
        : { kind: 'bind', source: driver === 'direct' ? path : join(dir, 'copy') }
    return { path, target, name, role, access, mount }
  })
}

/** Common git folders that linked worktrees among the roots need besides, each once. */
function gitRoots(
  roots: readonly ProjectRoot[],
): { path: string; target: string; name: string; role: 'git' }[] {
  const folders = new Set<string>()
  for (const { path, git } of roots) {
    if (git === null || !git.linked || !git.confirmed || git.top !== path) continue
    if (!roots.some((root) => git.commonDir.startsWith(`${root.path}/`))) folders.add(git.commonDir)
  }
  return [...folders].map((path, index) => ({
    path,
    target: path,
    name: index === 0 ? '.git' : `.git-${index + 1}`,
    role: 'git' as const,
  }))
}

/**
 * Makes the record and the folders of one workspace. The order is seed 2's: the invocation's folder first
 * and exclusively, then the sandbox, then `meta.json` as the commit point. Whatever fails before that takes
 * everything back and leaves the first error standing.
 */
export async function prepareWorkspace(options: PrepareOptions): Promise<Workspace> {
  const { id, project, strategy, driver, access, layout } = options
  const { repoId } = project
  const dir = layout.sandbox(repoId, id)
  await refuseTangledRoots(project, layout)
  const roots = planRoots(project, driver, access, dir)
  const createdAtMs = Date.now()

  await using rollback = new Rollback(reportToLog(layout))
  await ensureInvocationDir(layout, repoId, id)
  rollback.add('invocation folder', () => removeTree(layout.invocation(repoId, id)))
  await ensurePrivateDir(layout.sandboxes(repoId))
  await makeSandboxDir(dir, id)
  rollback.add('sandbox folder', () => removeTree(dir))
  for (const root of roots) await makeRoot(root, driver)
  const meta: InvocationMeta = {
    schema_version: '1.0',
    invocation_id: id,
    invocation_name: options.name ?? '',
    integration_worktree_id: null,
    sandbox_path: dir,
    sandbox_branch: null,
    base_commit: null,
    runner: options.runner,
    mode: options.mode,
    status: 'starting',
    started_at: secondsIso(createdAtMs),
    strategy,
    driver,
    common_dir: project.commonDir,
    roots,
    created_at_ms: createdAtMs,
    ended_at: null,
    outcome: null,
    archive: null,
  }
  await writeInvocationMeta(layout, repoId, meta)
  rollback.commit()
  return workspaceOf(layout, repoId, meta)
}

export async function loadWorkspace(layout: Layout, repoId: RepoId, id: DispatchId): Promise<Workspace> {
  return workspaceOf(layout, repoId, await readInvocationMeta(layout, repoId, id))
}

export function workspaceOf(layout: Layout, repoId: RepoId, meta: InvocationMeta): Workspace {
  return {
    id: meta.invocation_id,
    repoId,
    strategy: meta.strategy,
    driver: meta.driver,
    dir: layout.sandbox(repoId, meta.invocation_id),
    roots: meta.roots,
    createdAtMs: meta.created_at_ms,
  }
}

/** `2026-01-28T12:05:00Z`, as in the seed. */
export function secondsIso(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z')
}

// The kernel accepts an upper layer inside its own lower layer and then shows the agent our records.
async function refuseTangledRoots(project: Project, layout: Layout): Promise<void> {
  await ensurePrivateDir(layout.dataDir)
  const dataDir = await realpath(layout.dataDir)
  for (const root of project.roots) {
    if (!isTangled(root.path, dataDir)) continue
    throw new OrangeryError(
      'workspace.root_contains_data_dir',
      `${root.target}: it overlaps Orangery's data folder ${dataDir}`,
      { kind: 'input', hint: 'Name a narrower folder, or set ORANGERY_DATA_DIR to a folder outside of it.' },
    )
  }
}

export async function makeSandboxDir(dir: string, id: DispatchId): Promise<void> {
  try {
    await mkdir(dir, { mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    throw new OrangeryError('workspace.sandbox_exists', `sandbox ${id}: its folder is there already`, {
      kind: 'cannot_create',
      cause: error,
    })
  }
}

export async function makeRoot(root: WorkspaceRoot, driver: WorkspaceDriver): Promise<void> {
  if (root.mount.kind === 'overlay') {
    await mkdir(root.mount.upper, { recursive: true, mode: 0o700 })
    await mkdir(root.mount.work, { mode: 0o700 })
    // The upper folder shows through as the root itself, so it carries the root's mode.
    await chmod(root.mount.upper, (await stat(root.mount.lower)).mode & 0o777)
  } else if (root.mount.source !== root.path) {
    await copyTree(root.path, root.mount.source, driver)
  }
}
