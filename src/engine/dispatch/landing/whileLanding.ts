import type { DispatchId } from '../../../shared/ids.ts'
import type { WorkspaceRoot } from '../../base/workspace.ts'
import {
  claimLanding,
  publishCommits,
  reapLanded,
  resolveInvocation,
  restoreArchived,
  type Landing,
} from '../../workspace/index.ts'
import { leaveCaretaker } from '../recover/caretaker.ts'
import type { Parts } from '../parts.ts'
import { mirror } from '../recover/reconcile.ts'

/** An agent that has just ended may still be letting go. */
export const landingPatienceMs = 500

/** What a landing of a changeset writes: its folders, and the repositories beside them that get commits or refs of it. */
export async function landingPlaces(
  { store, changesets }: Pick<Parts, 'store' | 'changesets'>,
  id: DispatchId,
  makesCommit: boolean,
): Promise<Omit<Landing, 'id'>> {
  const workspace = store.changesets.find(id)?.workspace
  const pathsOf = (role: WorkspaceRoot['role']) =>
    workspace?.roots.filter((root) => root.role === role).map((root) => root.path) ?? []
  const paths = pathsOf('project')
  const repositories = pathsOf('git')
  // Files of a linked checkout alone leave its repository as it is. Of a worktree sandbox the branch goes with the landing.
  const movesRefs =
    makesCommit ||
    workspace?.strategy === 'worktree' ||
    (repositories.length > 0 && ((await changesets.get(id)).commits ?? []).length > 0)
  return movesRefs ? { paths, repositories } : { paths }
}

type WhileLanding<T> = {
  /** A commit is to be made on a branch of the user's. */
  readonly makesCommit?: boolean
  /** What belongs to the landing and comes last: an agent that starts must not see it without. */
  readonly finish?: (result: T) => Promise<void>
}

/**
 * Every write to the user's files goes through here: it waits for nobody, and is refused while another agent
 * looks at the same folders. What the agent committed comes along under `refs/orangery/<id>/`.
 */
export async function whileLanding<T>(
  parts: Parts,
  id: DispatchId,
  land: () => Promise<T>,
  { makesCommit = false, finish }: WhileLanding<T> = {},
): Promise<T> {
  const { layout, store } = parts
  const workspace = store.changesets.find(id)?.workspace
  if (workspace === undefined) {
    const landed = await land()
    await finish?.(landed)
    return landed
  }
  const landing = { id, ...(await landingPlaces(parts, id, makesCommit)) }
  using _caretaker = leaveCaretaker({ dataDir: layout.dataDir, configDir: parts.configDir })
  await using _claim = await claimLanding(layout, landing, { timeoutMs: landingPatienceMs })
  const result = await land()
  const commonDir = await commonDirOf(parts, id)
  if (commonDir !== null) await publishCommits(layout, workspace.repoId, id, commonDir).catch(() => [])
  await settleWorkspace(parts, id)
  await finish?.(result)
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
