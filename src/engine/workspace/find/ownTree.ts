import { realpath } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { RepoId } from '../../../shared/ids.ts'
import type { InvocationMeta, WorktreeMeta } from '../../base/invocation.ts'
import type { Layout } from '../../base/paths.ts'

/**
 * Whether a record names the tree that is its own. By one that was edited, or copied along with the data folder,
 * another's tree would be archived and removed. Of what is over the tree is gone, and nothing goes by its name.
 */
export async function namesOwnSandbox(
  layout: Layout,
  repoId: RepoId,
  meta: InvocationMeta,
): Promise<boolean> {
  if (meta.outcome !== null) return true
  const { invocation_id: id, strategy } = meta
  const own = strategy === 'worktree' ? layout.sandboxTree(repoId, id) : layout.sandbox(repoId, id)
  return isSamePlace(meta.sandbox_path, own)
}

export async function namesOwnWorktree(layout: Layout, repoId: RepoId, meta: WorktreeMeta): Promise<boolean> {
  return meta.outcome !== null || isSamePlace(meta.tree_path, layout.worktreeTree(repoId, meta.worktree_id))
}

/** The data folder may be reached by a link; the name itself is not followed, for it may be one to elsewhere. */
async function isSamePlace(one: string, other: string): Promise<boolean> {
  if (one === other) return true
  const [first, second] = await Promise.all([one, other].map(placeOf))
  return first !== null && first === second
}

async function placeOf(path: string): Promise<string | null> {
  const folder = await realpath(dirname(path)).catch(() => null)
  return folder === null ? null : join(folder, basename(path))
}
