import type { DispatchId } from '../../shared/ids.ts'
import {
  claimLanding,
  publishCommits,
  reapLanded,
  resolveInvocation,
  restoreArchived,
} from '../workspace/index.ts'
import { leaveCaretaker } from './caretaker.ts'
import type { Parts } from './parts.ts'
import { mirror } from './reconcile.ts'

/** An agent that has just ended may still be letting go. */
const landingPatienceMs = 500

/** The folders a changeset lands in. */
export function projectPaths({ store }: Pick<Parts, 'store'>, id: DispatchId): string[] {
  const roots = store.changesets.find(id)?.workspace.roots ?? []
  return roots.filter((root) => root.role === 'project').map((root) => root.path)
}

/**
 * Every write to the user's files goes through here: it waits for nobody, and is refused while another agent
 * looks at the same folders. What the agent committed comes along under `refs/orangery/<id>/`.
 */
export async function whileLanding<T>(parts: Parts, id: DispatchId, land: () => Promise<T>): Promise<T> {
  const { layout, store } = parts
  const workspace = store.changesets.find(id)?.workspace
  if (workspace === undefined) return land()
  const paths = projectPaths(parts, id)
  using _caretaker = leaveCaretaker({ dataDir: layout.dataDir, configDir: parts.configDir })
  await using _claim = await claimLanding(layout, { id, paths }, { timeoutMs: landingPatienceMs })
  const result = await land()
  const commonDir = await commonDirOf(parts, id)
  if (commonDir !== null) await publishCommits(layout, workspace.repoId, id, commonDir).catch(() => [])
  await settleWorkspace(parts, id)
  return result
}

async function commonDirOf(parts: Parts, id: DispatchId): Promise<string | null> {
  return resolveInvocation(parts.layout, id).then(
    ({ meta }) => meta?.common_dir ?? null,
    () => null,
  )
}

/**
 * A sandbox whose changeset has landed is done with, and one whose landing was undone is wanted again. What
 * cannot be tidied stays as it is: a sandbox too many does no harm.
 */
async function settleWorkspace(parts: Parts, id: DispatchId): Promise<void> {
  const { layout, store } = parts
  const record = store.changesets.find(id)
  if (record === null) return
  try {
    if (record.state === 'applied') await reapLanded(layout, record.repoId, id)
    else if (record.state === 'review') await bringBack(parts, id)
  } catch {
    return
  }
  await mirror(parts, record.repoId, id)
}

/** Takes the sandbox of a changeset out of the archive, where it is there. */
export async function bringBack({ layout }: Pick<Parts, 'layout'>, id: DispatchId): Promise<void> {
  const entry = await resolveInvocation(layout, id).catch(() => null)
  if (entry?.meta?.archive != null) await restoreArchived(layout, id)
}
