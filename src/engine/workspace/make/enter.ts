import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import type { RootModes } from '../../../shared/spec.ts'
import type { InvocationMeta } from '../../base/invocation.ts'
import { integrationMarker, sandboxMarker } from '../../base/markers.ts'
import type { Layout } from '../../base/paths.ts'
import { besideRoots, modeOf, type Workspace, type WorkspaceDriver } from '../../base/workspace.ts'
import { readInvocationMeta, updateInvocation, workspaceOf } from '../find/invocation.ts'
import { hasMarker, integrationTreeAbove } from '../find/marker.ts'
import { makeRoot } from './sandboxFolders.ts'
import { isFolder } from '../find/scan.ts'

/**
 * Readies an invocation that exists for something to run in it: asserts that it is whole and, for a
 * worktree, that its tree carries the sandbox marker and no integration marker, then makes the overlay
 * folders that are still missing. Claim it (`claimWorkspace`) before anything is mounted.
 */
export async function enterInvocation(
  layout: Layout,
  repoId: RepoId,
  id: DispatchId,
  options: { readonly modes?: RootModes | undefined; readonly driver?: WorkspaceDriver },
): Promise<Workspace> {
  const meta = await readInvocationMeta(layout, repoId, id)
  await assertWhole(meta)
  const roots = meta.roots.map((root) => {
    const mode = modeOf(root, options.modes)
    return { ...root, access: root.role === 'git' ? besideRoots(meta.driver, mode) : mode }
  })
  for (const root of roots) {
    if (root.access === 'hidden') continue
    if (root.mount.kind === 'overlay' && !(await isFolder(root.mount.work))) await makeRoot(root, meta.driver)
  }
  const driver = options.driver ?? meta.driver
  await updateInvocation(layout, repoId, id, { roots, driver })
  return workspaceOf(layout, repoId, { ...meta, roots, driver })
}

async function assertWhole(meta: InvocationMeta): Promise<void> {
  if (meta.outcome !== null) {
    throw new OrangeryError(
      'workspace.invocation_over',
      `invocation ${meta.invocation_id}: it was ${meta.outcome}`,
      {
        kind: 'input',
        hint: 'Start a new one.',
      },
    )
  }
  if (!(await isFolder(meta.sandbox_path))) {
    throw new OrangeryError(
      'workspace.invocation_broken',
      `invocation ${meta.invocation_id}: its sandbox is missing`,
      {
        kind: 'input',
        hint: '`orangery agent ls --all` shows it; nothing is repaired by itself.',
      },
    )
  }
  await assertMarked(meta)
}

/** Nothing runs in a worktree sandbox whose tree does not say that it is one. */
export async function assertMarked(meta: InvocationMeta): Promise<void> {
  if (meta.strategy !== 'worktree') return
  const marked = await hasMarker(meta.sandbox_path, sandboxMarker)
  const integration = await integrationTreeAbove(meta.sandbox_path)
  if (marked && integration === null) return
  throw new OrangeryError(
    'workspace.sandbox_marker',
    integration === null
      ? `invocation ${meta.invocation_id}: its tree carries no ${sandboxMarker}`
      : `invocation ${meta.invocation_id}: ${integration} carries ${integrationMarker}`,
    {
      kind: 'refused',
      hint: `Nothing runs where the markers do not say that it may. Start a new one; \`orangery agent discard ${meta.invocation_id}\` puts this one into the archive.`,
    },
  )
}
