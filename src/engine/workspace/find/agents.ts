import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import type { ArchiveRecord } from '../../../shared/invocation.ts'
import type { InvocationEntry, InvocationMeta } from '../../base/invocation.ts'
import { createRepoLock } from '../../base/lock.ts'
import type { Layout } from '../../base/paths.ts'
import { forgetArchive, readArchive, recordsOf, takeBack, whereIs } from '../end/archive.ts'
import { gitOfBroken, moveFolder, putAwayBroken, refuseMade, type Broken } from './broken.ts'
import { claimTurn, claimWorkspace } from './claim.ts'
import { retireInvocation } from '../end/dispose.ts'
import { holdsMore } from '../end/leftover.ts'
import { readInvocationMeta, updateInvocation, workspaceOf } from './invocation.ts'
import { refuseLinked, refuseMounts } from './mounts.ts'
import { refuseWorktreesIn } from '../git/nested.ts'
import { folderInside } from './pathSafety.ts'
import { openRepository } from '../git/repository.ts'
import { reattachWorktree, type AfterRestoreStep, type Renamed } from '../end/reattach.ts'
import { resolveInvocation, scanInvocations } from './scan.ts'
import { restoreWorktree } from '../end/endWorktree.ts'

/** Whole, live invocations; with `all` also the broken ones and those that are over. */
export async function listAgents(
  layout: Layout,
  options: { all?: boolean } = {},
): Promise<InvocationEntry[]> {
  const entries = await scanInvocations(layout)
  return options.all === true
    ? entries
    : entries.filter((entry) => !entry.broken && entry.meta?.outcome === null)
}

export type Retired = { readonly id: DispatchId; readonly archive: string | null; readonly notes?: string[] }

/** Ends an invocation without landing it. Its branch and everything it wrote go to the archive. */
export async function discardAgent(layout: Layout, reference: string): Promise<Retired> {
  const entry = await resolveInvocation(layout, reference)
  const repoId = entry.repo_id as RepoId
  const id = entry.id as DispatchId
  if (entry.meta === null) return { id, ...(await discardBroken(layout, repoId, id)) }
  await using _claim = await claimToEnd(layout, repoId, entry.meta)
  return { id, ...(await retireInvocation(layout, repoId, entry.meta, 'discarded', true)) }
}

/**
 * Ends an invocation whose changeset has landed in the user's files. What it holds besides (rejected files,
 * whatever was under `.git`) goes to the archive; where there is nothing of the kind, nothing is kept.
 */
export async function reapLanded(layout: Layout, repoId: RepoId, id: DispatchId): Promise<Retired | null> {
  const meta = await readInvocationMeta(layout, repoId, id)
  if (meta.outcome !== null || meta.strategy === 'none' || meta.strategy === 'worktree') return null
  await using _claim = await claimToEnd(layout, repoId, meta)
  const keeps = await holdsMore(workspaceOf(layout, repoId, meta))
  return { id, ...(await retireInvocation(layout, repoId, meta, 'landed', keeps)) }
}

/** Ends an invocation in a worktree whose work has landed. */
export async function retireLanded(layout: Layout, repoId: RepoId, id: DispatchId): Promise<Retired> {
  const meta = await readInvocationMeta(layout, repoId, id)
  await using _claim = await claimToEnd(layout, repoId, meta)
  return { id, ...(await retireInvocation(layout, repoId, meta, 'landed', true)) }
}

async function claimToEnd(layout: Layout, repoId: RepoId, meta: InvocationMeta): Promise<AsyncDisposable> {
  if (meta.outcome !== null) {
    throw new OrangeryError(
      'workspace.invocation_over',
      `invocation ${meta.invocation_id}: it was ${meta.outcome} already`,
      {
        kind: 'input',
        hint: '`orangery agent restore` brings back what is in the archive.',
      },
    )
  }
  return claimWorkspace(layout, workspaceOf(layout, repoId, meta), { timeoutMs: 0 })
}

/** A sandbox without a readable record: what there is goes to the archive, and git's side with it. */
async function discardBroken(layout: Layout, repoId: RepoId, id: DispatchId) {
  // Its record may be torn while something runs in it all the same.
  await using _claim = await claimWorkspace(
    layout,
    { repoId, id, roots: [], strategy: 'worktree' },
    { timeoutMs: 0 },
  )
  await using _turn = await claimTurn(layout, { repoId, id })
  await using _lock = await createRepoLock(layout).acquire(repoId)
  const origin = layout.sandbox(repoId, id)
  await refuseLinked(origin)
  await refuseMounts(origin)
  const broken: Broken = {
    kind: 'invocation',
    repoId,
    id,
    tree: layout.sandboxTree(repoId, id),
    origin,
    records: layout.invocation(repoId, id),
  }
  await refuseMade(layout, broken)
  const git = await gitOfBroken(layout, broken)
  await refuseWorktreesIn(broken.tree, git?.repository.commonDir ?? null)
  return putAwayBroken(layout, broken, git, 'discarded, broken')
}

/**
 * Brings back what `discard`, `land`, `abandon` or `worktree rm` put into the archive. Cut off anywhere, the next
 * attempt finishes it.
 */
export async function restoreArchived(
  layout: Layout,
  id: DispatchId,
  after: AfterRestoreStep = () => {},
): Promise<ArchiveRecord> {
  const record = await readArchive(layout, id)
  const isBack = (await whereIs(layout, record)) === 'back'
  if (!isBack) {
    if (record.kind === 'worktree') await restoreWorktree(layout, record, after)
    else await restoreInvocation(layout, record, after)
  }
  await after('record')
  await forgetArchive(layout, record, isBack ? 'stays' : 'goes')
  return record
}

async function restoreInvocation(
  layout: Layout,
  record: ArchiveRecord,
  after: AfterRestoreStep,
): Promise<void> {
  const repoId = record.repo_id as RepoId
  const { id, common_dir: commonDir, branch, tip } = record
  if (commonDir !== null && branch !== null && tip !== null) {
    await using _lock = await createRepoLock(layout).acquire(repoId)
    const tree = layout.sandboxTree(repoId, id)
    const repository = await openRepository(commonDir)
    await reattachWorktree(layout, repository, { ...record, branch, tip }, tree, after, (renamed) =>
      followName(layout, repoId, id, renamed),
    )
  } else await takeBack(layout, record)
  await moveFolder(recordsOf(layout, id), layout.invocation(repoId, id))
  // A broken invocation comes back as broken as it was.
  await updateInvocation(layout, repoId, id, { outcome: null, archive: null }).catch((error: unknown) => {
    if (!(error instanceof OrangeryError) || !error.code.startsWith('workspace.meta_')) throw error
  })
}

/**
 * The agent's own index, HEAD and unsettled merge lie in its layer, under the name git had for the worktree. Git may
 * have given that away meanwhile.
 */
async function followName(
  layout: Layout,
  repoId: RepoId,
  id: DispatchId,
  { was, now }: Renamed,
): Promise<void> {
  const meta = await readInvocationMeta(layout, repoId, id).catch(() => null)
  const git = meta?.roots.find(({ path }) => path === meta.common_dir)
  if (git?.mount.kind !== 'overlay' || was === now) return
  const folder = await folderInside(git.mount.upper, 'worktrees')
  if (folder === null || (await folderInside(folder, was)) === null) return
  // Whatever else the agent has put there under the new name stays, and so does its own.
  await rename(join(folder, was), join(folder, now)).catch(() => {})
}
