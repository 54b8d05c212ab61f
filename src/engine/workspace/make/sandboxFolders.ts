import { chmodSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import { listFolders, recordCopy } from '../../base/copiedTree.ts'
import type { WorkspaceDriver, WorkspaceRoot } from '../../base/workspace.ts'
import { copyTree } from './clone.ts'
import { makeNewDir } from '../find/invocation.ts'

export function overlayMount(lower: string, sandboxDir: string, index: number): WorkspaceRoot['mount'] {
  const dir = join(sandboxDir, 'roots', String(index))
  return { kind: 'overlay', lower, upper: join(dir, 'upper'), work: join(dir, 'work') }
}

/** Where the repositories of a checkout's submodules lie: beside its tree, in our own folder. */
export const submodulesOf = (folder: string): string => join(folder, 'modules')

export async function makeSandboxDir(dir: string, id: DispatchId): Promise<void> {
  if (await makeNewDir(dir)) return
  throw new OrangeryError('workspace.sandbox_exists', `sandbox ${id}: its folder is there already`, {
    kind: 'cannot_create',
  })
}

export async function makeRoot(root: WorkspaceRoot, driver: WorkspaceDriver): Promise<void> {
  if (root.mount.kind === 'overlay') {
    const { upper, work, lower } = root.mount
    // Small calls on our own folder: trips to the thread pool take ten times as long, and an agent waits for them.
    for (const folder of [work, upper]) mkdirSync(folder, { recursive: true, mode: 0o700 })
    const { mode } = statSync(lower)
    // The upper folder shows through as the root itself, so it carries the root's mode; the agent may write
    // there also where the user may not, since nothing of it lands by itself.
    if ((mode & 0o777) !== 0o700) chmodSync(upper, (mode & 0o777) | 0o700)
  } else if (root.mount.source !== root.path) {
    const folders = await listFolders(root.path)
    await copyTree(root.path, root.mount.source, driver)
    await recordCopy(folders, root.mount.source)
  }
}
