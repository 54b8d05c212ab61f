import type { Handlers } from '../../../shared/api.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { isDispatchId, type DispatchId, type RepoId } from '../../../shared/ids.ts'
import type { AgentCommit, InvocationMeta, Orphan } from '../../../shared/invocation.ts'
import {
  claimWorkspace,
  createWorktree,
  discardAgent,
  disposeWorkspace,
  expireArchive,
  integrationPlace,
  integrationTree,
  layerPaths,
  listAgents,
  listArchive,
  listRunning,
  listWorktrees,
  loadWorkspace,
  ownStakes,
  readInvocationMeta,
  refuseWorktreesOf,
  removeIntegration,
  repoIdNear,
  resolveInvocation,
  resolveWorktree,
  restoreArchived,
  someOf,
  stakesNotes,
  stakesOf,
  startAgent,
} from '../../workspace/index.ts'
import type { Workspace } from '../../base/workspace.ts'
import { isIncludeTrusted } from '../../policy/index.ts'
import { claimEnding, findInvocation, landInvocation } from '../landing/landInvocation.ts'
import { landWhenIdle, waitsFor } from '../landing/landings.ts'
import { missingCommits } from './leftBehind.ts'
import { allCommits, allUnlanded, showAnyCommit } from './otherCommits.ts'
import type { Parts } from '../parts.ts'
import { mirror, reconcile } from '../recover/reconcile.ts'
import { bringBack } from '../landing/whileLanding.ts'

type Names = Extract<keyof Handlers, `worktree.${string}` | `archive.${string}` | `workspace.${string}`>
type AgentNames = 'agent.start' | 'agent.list' | 'agent.get' | 'agent.commit' | 'agent.land' | 'agent.discard'

/** Worktrees, invocations and the archive, as the contract has them. */
export function workspaceHandlers(
  parts: Parts,
  reconciled: () => Promise<Orphan[]>,
): Pick<Handlers, Names | AgentNames> {
  const { layout, store } = parts
  const near = async (folder: string | undefined) => (folder === undefined ? null : repoIdNear(folder))

  return {
    'worktree.create': async ({ repo, name, base }, { signal }) => {
      const trusted = await isIncludeTrusted(parts.configDir, repo)
      return createWorktree({ layout, repo, name, base, trusted, signal })
    },
    'worktree.list': async ({ all }) => {
      const [worktrees, agents] = await Promise.all([listWorktrees(layout, { all }), listWithRunning(false)])
      const sandboxesOf = (worktree: string) =>
        agents.flatMap(({ meta, running }) =>
          meta?.integration_worktree_id === worktree
            ? [{ id: meta.invocation_id, name: meta.invocation_name ?? '', status: meta.status, running }]
            : [],
        )
      return worktrees.map((entry) => ({ ...entry, sandboxes: sandboxesOf(entry.id) }))
    },
    'worktree.get': async ({ id, near: folder }) => {
      const entry = await resolveWorktree(layout, id, await near(folder))
      const standing = entry.meta !== null && !entry.broken && entry.meta.outcome === null
      return { ...entry, stakes: standing && entry.meta !== null ? await stakesOf(entry.meta) : null }
    },
    'worktree.remove': async ({ id, near: folder, force }) =>
      removeIntegration(layout, id, { force, near: await near(folder) }),

    'agent.start': async ({ worktree, near: folder, name, runner, mode }, { signal }) => {
      const { repo_path, repo_id, tree_path } = await integrationTree(layout, worktree, folder ?? null)
      const trusted = await isIncludeTrusted(parts.configDir, repo_path, tree_path)
      const meta = await startAgent({
        layout,
        worktree,
        near: folder ?? null,
        name: name ?? null,
        runner: runner ?? '',
        mode,
        trusted,
        signal,
      })
      await mirror(parts, repo_id as RepoId, meta.invocation_id)
      return meta
    },
    'agent.list': ({ all }) => listWithRunning(all),
    'agent.get': async ({ id }) => {
      const entry = await resolveInvocation(layout, id)
      const { commits, missing } = await allCommits(parts, entry)
      // A review that cannot be read says so itself.
      const left = await missingCommits(parts, entry.id as DispatchId).catch(() => [])
      return { ...entry, commits, missing: [...left.map(({ path, why }) => ({ path, why })), ...missing] }
    },
    'agent.commit': async ({ id, commit }) =>
      showAnyCommit(parts, await resolveInvocation(layout, id), commit),
    'agent.land': async ({ id: reference, when, ...options }, { by }) => {
      if (when === 'now') return landInvocation(parts, reference, options, by)
      const { id, meta } = await findInvocation(parts, reference)
      const landed = await landWhenIdle(parts, id, { kind: 'land', ...options }, by)
      if (landed !== null) return landed
      const { branch, tree } = await integrationPlace(layout, meta)
      const waits_for = await waitsFor(parts, id)
      return { id, landed: false, branch, tree, commit: null, applied: [], skipped: [], waits_for }
    },
    'agent.discard': async ({ id: reference }, { by }) => {
      const entry = await resolveInvocation(layout, reference).catch(async (error: unknown) => {
        if ((await listArchive(layout)).some(({ id }) => id === reference)) throw inArchive(reference)
        // Its record is lost: the database's copy is all there is, and goes.
        if (isDispatchId(reference) && store.invocations.forget(reference)) return null
        throw error
      })
      if (entry === null) return { id: reference as DispatchId, archive: null, files: 0, commits: 0 }
      const repoId = entry.repo_id as RepoId
      await using _ending = await claimEnding(parts, entry.id as DispatchId)
      const held = entry.meta === null ? null : await heldIn(parts, entry.meta, repoId)
      const made = await allUnlanded(parts, entry)
      const retired = await discardAgent(layout, reference)
      store.landings.remove(retired.id)
      // Whoever gives the sandbox up gives up what was in it: nothing waits for review any more.
      const changeset = store.changesets.find(retired.id)
      const isOpen = changeset !== null && ['active', 'review', 'rejected'].includes(changeset.state)
      if (isOpen) await parts.changesets.abandon(retired.id, by)
      await mirror(parts, repoId, retired.id)
      // What was broken has no record that says so: the archive's is the one that counts.
      if (entry.meta === null) store.invocations.forget(retired.id)
      const own = held?.own ?? { uncommitted: [], unmerged: [] }
      const files = (isOpen ? changeset.files : (held?.unseen.length ?? 0)) + own.uncommitted.length
      const notes = [...commitNotes(made), ...(held?.notes ?? []), ...(retired.notes ?? [])]
      return { ...retired, files, commits: made.length + own.unmerged.length, notes }
    },

    'archive.list': async () => {
      const held = new Map<string, string>()
      await expireArchive(layout, Date.now(), ({ id }, why) => {
        held.set(id, why instanceof Error ? why.message : String(why))
      })
      const records = await listArchive(layout)
      return records.map((record) => ({ ...record, held: held.get(record.id) }))
    },
    'archive.restore': async ({ id }, { by }) => {
      const record = await restoreArchived(layout, id, async (step) => {
        // A changeset that was abandoned with it comes back to review with it, before the archive forgets both.
        if (step === 'record' && store.changesets.find(id)?.state === 'abandoned')
          await parts.changesets.restore(id, by)
      })
      if (record.kind === 'invocation') await mirror(parts, record.repo_id as RepoId, id)
      return record
    },
    'workspace.orphans': ({ fresh }) => (fresh ? reconcile(parts) : reconciled()),
  }

  async function listWithRunning(all: boolean) {
    const [entries, runs] = await Promise.all([listAgents(layout, { all }), listRunning(layout)])
    const running = new Set<string>(runs.map(({ id }) => id))
    return entries.map((entry) => ({ ...entry, running: running.has(entry.id) }))
  }
}

function inArchive(id: string): OrangeryError {
  return new OrangeryError('workspace.invocation_over', `invocation ${id}: it is in the archive already`, {
    kind: 'input',
    hint: `Bring it back with: orangery agent restore ${id}`,
  })
}

/** Gives a changeset up: nothing runs there any more, and what was written goes to the archive for 30 days. */
export async function abandonChangeset(parts: Parts, id: DispatchId, by: string) {
  const { layout, store, changesets } = parts
  const repoId = store.changesets.find(id)?.repoId
  const workspace = repoId === undefined ? null : await loadWorkspace(layout, repoId, id).catch(() => null)
  if (workspace === null) {
    const made = repoId === undefined ? [] : await allUnlanded(parts, { id, repo_id: repoId, meta: null })
    store.landings.remove(id)
    return { ...(await changesets.abandon(id, by)), commits: made.length, notes: commitNotes(made) }
  }
  await using _claim = await claimWorkspace(layout, workspace, { timeoutMs: 0 })
  await refuseWorktreesOf(await readInvocationMeta(layout, workspace.repoId, id))
  const held = await atStake(parts, workspace)
  const abandoned = await changesets.abandon(id, by)
  store.landings.remove(id)
  const said = await disposeWorkspace(workspace, { archive: true })
  await mirror(parts, workspace.repoId, id)
  return { ...abandoned, commits: held.commits, notes: [...held.notes, ...said] }
}

/** What leaves the user's sight with a sandbox that is given up, beside the changes in review. */
async function atStake(parts: Parts, { id, repoId }: Workspace) {
  const { layout } = parts
  const meta = await readInvocationMeta(layout, repoId, id)
  const made = await allUnlanded(parts, { id, repo_id: repoId, meta })
  const { own, notes } = await heldIn(parts, meta, repoId)
  return { commits: made.length + own.unmerged.length, notes: [...commitNotes(made), ...notes] }
}

function commitNotes(made: readonly AgentCommit[]): string[] {
  const named = made.map(({ commit, subject, repository }) => {
    const where = repository === undefined ? '' : ` (in ${repository})`
    return `${commit.slice(0, 7)} ${subject}${where}`
  })
  return named.length === 0 ? [] : [`commits of the agent: ${someOf(named)}`]
}

/**
 * Says no to a changeset. One whose agent still works is not there yet to be judged: brought back it would land
 * half-written. Where the agent is gone and nobody has noticed yet, what it left is captured first.
 */
export async function rejectChangeset(parts: Parts, id: DispatchId, comment: string, by: string) {
  const { layout, store, changesets } = parts
  const record = store.changesets.find(id)
  if (record?.state === 'active') {
    await using claim = await claimWorkspace(layout, record.workspace, { timeoutMs: 0 }).catch(unlessInUse)
    if (claim !== null) await changesets.capture(record.workspace, { final: true })
  }
  const rejected = await changesets.reject(id, comment, by)
  store.landings.remove(id)
  return rejected
}
function unlessInUse(error: unknown): null {
  if (error instanceof OrangeryError && error.kind === 'busy') return null
  throw error
}

/** Brings a changeset back to review, and its sandbox out of the archive. */
export async function restoreChangeset(parts: Parts, id: DispatchId, by: string) {
  const restored = await parts.changesets.restore(id, by)
  const repoId = parts.store.changesets.find(id)?.repoId
  // The review needs only what was captured: a sandbox that cannot come back does not stand in its way.
  await bringBack(parts, id).catch(() => {})
  if (repoId !== undefined) await mirror(parts, repoId, id)
  return restored
}

/** What a sandbox holds beside the agent's commits and what is in review: the user's own work, and what nobody has seen. */
async function heldIn({ layout, store }: Parts, meta: InvocationMeta, repoId: RepoId) {
  const own = await ownStakes(meta)
  const isReviewed = store.changesets.find(meta.invocation_id) !== null
  const unseen = isReviewed ? [] : await layerPaths(await loadWorkspace(layout, repoId, meta.invocation_id))
  const notes = [
    ...stakesNotes(own),
    ...(unseen.length === 0 ? [] : [`written in the sandbox and never reviewed: ${someOf(unseen)}`]),
  ]
  return { own, unseen, notes }
}
