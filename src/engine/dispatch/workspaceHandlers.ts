import type { Handlers } from '../../shared/api.ts'
import { isTerminal } from '../../shared/dispatch.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { DispatchId, RepoId } from '../../shared/ids.ts'
import type { InvocationMeta } from '../../shared/invocation.ts'
import {
  claimLanding,
  claimWorkspace,
  commitLanding,
  createWorktree,
  discardAgent,
  disposeWorkspace,
  expireArchive,
  findOrphans,
  integrationTree,
  listAgents,
  listArchive,
  listCommits,
  listWorktrees,
  loadWorkspace,
  publishCommits,
  removeIntegration,
  repoIdNear,
  resolveInvocation,
  resolveWorktree,
  restoreArchived,
  retireLanded,
  showCommit,
  stakesOf,
  startAgent,
} from '../workspace/index.ts'
import type { Parts } from './parts.ts'
import { isTrusted } from './place.ts'

type Names = Extract<keyof Handlers, `worktree.${string}` | `archive.${string}` | `workspace.${string}`>
type AgentNames = 'agent.start' | 'agent.list' | 'agent.get' | 'agent.commit' | 'agent.land' | 'agent.discard'

/** Worktrees, invocations and the archive, as the contract has them. */
export function workspaceHandlers(parts: Parts): Pick<Handlers, Names | AgentNames> {
  const { layout } = parts
  const near = async (folder: string | undefined) => (folder === undefined ? null : repoIdNear(folder))

  async function found(reference: string): Promise<{ id: DispatchId; repoId: RepoId; meta: InvocationMeta }> {
    const entry = await resolveInvocation(layout, reference)
    if (entry.meta !== null && !entry.broken) {
      return { id: entry.meta.invocation_id, repoId: entry.repo_id as RepoId, meta: entry.meta }
    }
    throw new OrangeryError(
      'workspace.invocation_broken',
      `invocation ${entry.id}: ${entry.why ?? 'it is broken'}`,
      {
        kind: 'input',
        hint: '`orangery agent discard` puts what there is into the archive.',
      },
    )
  }

  return {
    'worktree.create': async ({ repo, name, base }) =>
      createWorktree({ layout, repo, name, base, trusted: await isTrusted(parts, repo) }),
    'worktree.list': ({ all }) => listWorktrees(layout, { all }),
    'worktree.get': async ({ id, near: folder }) => {
      const entry = await resolveWorktree(layout, id, await near(folder))
      const standing = entry.meta !== null && !entry.broken && entry.meta.outcome === null
      return { ...entry, stakes: standing && entry.meta !== null ? await stakesOf(entry.meta) : null }
    },
    'worktree.remove': async ({ id, near: folder, force }) =>
      removeIntegration(layout, id, { force, near: await near(folder) }),

    'agent.start': async ({ worktree, near: folder, name, runner, mode }) => {
      const { repo_path } = await integrationTree(layout, worktree, folder ?? null)
      const trusted = await isTrusted(parts, repo_path)
      return startAgent({
        layout,
        worktree,
        near: folder ?? null,
        name: name ?? null,
        runner: runner ?? '',
        mode,
        trusted,
      })
    },
    'agent.list': ({ all }) => listAgents(layout, { all }),
    'agent.get': async ({ id }) => {
      const entry = await resolveInvocation(layout, id)
      const base = entry.meta?.base_commit ?? null
      const commits = await listCommits(layout, entry.repo_id as RepoId, entry.id as DispatchId, base)
      return { ...entry, commits }
    },
    'agent.commit': async ({ id, commit }) => {
      const { repoId, id: found } = await findOne(id)
      return { text: await showCommit(layout, repoId, found, commit) }
    },
    'agent.land': async ({ id: reference, how, message, all, include_ignored }, { by }) => {
      const { id, repoId, meta } = await found(reference)
      const hasWork =
        parts.store.changesets.find(id) !== null ||
        (await listCommits(layout, repoId, id, meta.base_commit)).length > 0
      if (!hasWork) throw nothingToLand(id)
      const { applied, skipped, open } = await landFiles(parts, id, { all, include_ignored }, by)
      const paths = applied.map(({ path }) => path)
      const landed = await commitLanding({ layout, repoId, id, how: open ? 'apply' : how, paths, message })
      if (!open) await retireLanded(layout, repoId, meta.invocation_id)
      return { id, landed: !open, ...landed, applied, skipped }
    },
    'agent.discard': ({ id }) => discardAgent(layout, id),

    'archive.list': async () => {
      await expireArchive(layout)
      return listArchive(layout)
    },
    'archive.restore': ({ id }) => restoreArchived(layout, id),
    'workspace.orphans': async () => {
      const rows = parts.store.dispatches.unfinished()
      return findOrphans(
        layout,
        rows.map(({ id, status }) => ({ id, isLive: !isTerminal(status) })),
      )
    },
  }

  async function findOne(reference: string): Promise<{ id: DispatchId; repoId: RepoId }> {
    const entry = await resolveInvocation(layout, reference)
    return { id: entry.id as DispatchId, repoId: entry.repo_id as RepoId }
  }
}

function nothingToLand(id: DispatchId): OrangeryError {
  return new OrangeryError('agent.nothing_to_land', `${id}: nothing was changed in this sandbox`, {
    kind: 'input',
    hint: `End it with: orangery agent discard ${id}`,
  })
}

/** Lets the approved files of a changeset into the integration tree; what was applied before counts too. */
async function landFiles(
  parts: Parts,
  id: DispatchId,
  options: { readonly all: boolean; readonly include_ignored: boolean },
  by: string,
) {
  const record = parts.store.changesets.find(id)
  if (record === null) return { applied: [], skipped: [], open: false }
  const result = await whileLanding(parts, id, () => parts.changesets.apply(id, options, by))
  return { ...result, open: result.state !== 'applied' }
}

/**
 * Every write to the user's files goes through here: it waits for nobody, and is refused while another agent
 * looks at the same folders. What the agent committed comes along under `refs/orangery/<id>/`.
 */
export async function whileLanding<T>(parts: Parts, id: DispatchId, land: () => Promise<T>): Promise<T> {
  const { layout, store } = parts
  const workspace = store.changesets.find(id)?.workspace
  if (workspace === undefined) return land()
  const paths = workspace.roots.filter((root) => root.role === 'project').map((root) => root.path)
  await using _claim = await claimLanding(layout, { id, paths }, { timeoutMs: landingPatienceMs })
  const result = await land()
  const commonDir = await commonDirOf(parts, id)
  if (commonDir !== null) await publishCommits(layout, workspace.repoId, id, commonDir).catch(() => [])
  return result
}

/** An agent that has just ended may still be letting go. */
const landingPatienceMs = 500

async function commonDirOf(parts: Parts, id: DispatchId): Promise<string | null> {
  return resolveInvocation(parts.layout, id).then(
    ({ meta }) => meta?.common_dir ?? null,
    () => null,
  )
}

/** Gives a changeset up: nothing runs there any more, and what was written goes to the archive for 30 days. */
export async function abandonChangeset(parts: Parts, id: DispatchId, by: string) {
  const { layout, store, changesets } = parts
  const repoId = store.changesets.find(id)?.repoId
  const workspace = repoId === undefined ? null : await loadWorkspace(layout, repoId, id).catch(() => null)
  if (workspace === null) return changesets.abandon(id, by)
  await using _claim = await claimWorkspace(layout, workspace, { timeoutMs: 0 })
  const abandoned = await changesets.abandon(id, by)
  await disposeWorkspace(workspace, { archive: true })
  return abandoned
}
