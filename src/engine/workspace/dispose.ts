import { mkdir, readdir, rename } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { ensurePrivateDir } from '../base/files.ts'
import { layout as layoutAt, type Layout } from '../base/paths.ts'
import type { Workspace } from '../base/workspace.ts'
import { updateInvocation } from './invocation.ts'
import { removeTree } from './removeTree.ts'

export type DisposeOptions = {
  /** Keep what the agent wrote in the archive folder. */
  readonly archive: boolean
  /** The work is in the user's files already; only then may it go without an archive. */
  readonly landed?: boolean
}

/** Whether an agent left anything in the workspace. */
export async function hasWork(workspace: Workspace): Promise<boolean> {
  for (const { mount, path } of workspace.roots) {
    if (mount.kind === 'bind') {
      if (mount.source !== path) return true
      continue
    }
    const entries = await readdir(mount.upper, { encoding: 'buffer' }).catch(
      (error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? [] : ['unreadable']),
    )
    if (entries.length > 0) return true
  }
  return false
}

/**
 * Takes a workspace down. Work that has not landed is moved to `archive/<id>`, also where the caller did not
 * ask for it: nothing is destroyed to tidy up.
 */
export async function disposeWorkspace(workspace: Workspace, options: DisposeOptions): Promise<void> {
  const { id, repoId, dir } = workspace
  const layout = layoutOf(workspace)
  const keep = options.archive || (options.landed !== true && (await hasWork(workspace)))
  const folder = join(layout.archive, id)
  if (keep) {
    await ensurePrivateDir(layout.archive)
    await mkdir(folder, { mode: 0o700 })
    await rename(dir, join(folder, 'sandbox'))
  } else {
    await removeTree(dir)
  }
  await updateInvocation(layout, repoId, id, {
    outcome: options.landed === true ? 'landed' : 'disposed',
    archive: keep ? folder : null,
  })
}

/** A workspace lies at `<data dir>/repos/<repo>/sandboxes/<id>`. */
function layoutOf(workspace: Workspace): Layout {
  return layoutAt(resolve(workspace.dir, '..', '..', '..', '..'))
}
