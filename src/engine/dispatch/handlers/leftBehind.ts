import { isUnimported, type Changeset } from '../../../shared/changeset.ts'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import { isForeign } from '../../changeset/index.ts'
import { collectedRefs, readInvocationMeta } from '../../workspace/index.ts'
import type { Parts } from '../parts.ts'

type Dropped = Changeset['dropped']
type Commits = NonNullable<Changeset['commits']>

/**
 * What a review leaves behind, by what has become of the commits since it was captured: those that were refused are
 * named, and those that its own reading cannot hold while a landing has them are not.
 */
export async function withLeftBehind(parts: Parts, changeset: Changeset): Promise<Changeset> {
  const repoId = parts.store.changesets.find(changeset.id)?.repoId
  if (repoId === undefined) return changeset
  const dropped = await leftBehind(parts, repoId, changeset)
  const { commits } = changeset
  return { ...changeset, dropped, ...(commits === undefined ? {} : { commits: whatIsHad(commits, dropped) }) }
}

/** Those that were left behind are named there, and are not among those that will be imported. */
function whatIsHad(commits: Commits, dropped: Dropped): Commits {
  const missing = new Set(dropped.filter(isUnimported).map(({ path }) => path))
  return commits.filter(
    ({ ref, folder, submodule }) =>
      folder !== undefined || submodule !== undefined || !missing.has(`.git/${ref}`),
  )
}

async function leftBehind(
  { layout, store }: Parts,
  repoId: RepoId,
  { id, dropped, roots }: Changeset,
): Promise<Dropped> {
  // The review cannot hold those that are named by SHA-256; a worktree sandbox has handed them over all the same.
  const lands = store.changesets.find(id)?.workspace.strategy === 'worktree'
  const held = dropped.some(isForeign) && lands ? await collectedRefs(layout, repoId, id) : []
  const handedOver = new Set(held.map((ref) => `.git/${ref}`))
  const kept = dropped.filter((each) => !(isForeign(each) && handedOver.has(each.path)))
  const told = new Set(kept.filter(isUnimported).map(({ path }) => path))
  const meta = await readInvocationMeta(layout, repoId, id).catch(() => null)
  const refused = (meta?.commits_refused ?? []).map(({ ref, why }) => ({
    root: roots[0] ?? '',
    path: `.git/${ref}`,
    why: `its commits were not imported: ${why}`,
  }))
  return [...kept, ...refused.filter(({ path }) => !told.has(path))]
}

/** Commits that could not be had out of the agent's repository, and so are in no merge. */
export async function missingCommits(parts: Parts, id: DispatchId): Promise<Dropped> {
  if (parts.store.changesets.find(id) === null) return []
  const { dropped } = await withLeftBehind(parts, await parts.changesets.get(id))
  return dropped.filter(isUnimported)
}
