import { readdir } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { RepoId } from '../../../shared/ids.ts'
import { readFrozenRefs } from '../../base/frozenRefs.ts'
import type { InvocationMeta } from '../../base/invocation.ts'
import { createRepoLock } from '../../base/lock.ts'
import { layout as layoutAt, type Layout } from '../../base/paths.ts'
import type { Workspace } from '../../base/workspace.ts'
import { putAway, type PutAway } from './archive.ts'
import { asideOf, deleteBranch, removeWorktree, snapshotCommit, treeHead } from './checkout.ts'
import { lastCommit, publishCommits } from '../git/commits.ts'
import { readInvocationMeta, updateInvocation, workspaceOf } from '../find/invocation.ts'
import { isWorkedOn, replacesAny } from './leftover.ts'
import { refuseLinked, refuseMounts } from '../find/mounts.ts'
import { refuseWorktreesOf } from '../git/nested.ts'
import { removeTree } from './removeTree.ts'
import { openRepository } from '../git/repository.ts'
import { isFolder } from '../find/scan.ts'
import { hasOwnWork } from './stakes.ts'

export type DisposeOptions = {
  /** Keep what the agent wrote in the archive folder. */
  readonly archive: boolean
  /** The work is in the user's files already; only then may it go without an archive. */
  readonly landed?: boolean
}

/** Whether an agent left anything in the workspace that is more than folders and git's own bookkeeping. */
export async function hasWork(workspace: Workspace): Promise<boolean> {
  for (const { mount, path } of workspace.roots) {
    if (mount.kind === 'bind') {
      if (mount.source !== path && (await isCopyWorkedOn(workspace, mount.source, path))) return true
      continue
    }
    const isIndex = isBookkeeping(mount.lower)
    const frozen = await readFrozenRefs(mount)
    const isOurs = async (at: string) => isIndex(at) || (await frozen?.isUntouched(at.slice(1))) === true
    if (await holdsFiles(Buffer.from(mount.upper), isOurs)) return true
    if (await replacesAny(mount.upper, mount.lower, frozen !== null)) return true
  }
  return false
}

/** Of a copy without a note of when it was made nobody can tell. */
async function isCopyWorkedOn({ copiedAtMs }: Workspace, copy: string, path: string): Promise<boolean> {
  if (copiedAtMs === undefined || Date.now() < copiedAtMs) return true
  return isWorkedOn(Buffer.from(copy), Buffer.from(path), copiedAtMs, isBookkeeping(path))
}

async function holdsFiles(
  folder: Buffer,
  ignored: (path: string) => Promise<boolean>,
  below = '',
): Promise<boolean> {
  const entries = await readdir(folder, { withFileTypes: true, encoding: 'buffer' }).catch(
    (error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? [] : null),
  )
  // What cannot be looked into may hold anything.
  if (entries === null) return true
  for (const entry of entries) {
    const path = `${below}/${entry.name.toString('latin1')}`
    if (!entry.isDirectory()) {
      if (!(await ignored(path))) return true
    } else if (await holdsFiles(Buffer.concat([folder, Buffer.from('/'), entry.name]), ignored, path))
      return true
  }
  return false
}

/** `git status` alone rewrites the index; that is no work of anybody's. */
const isBookkeeping = (lower: string) => {
  const place = lower.endsWith('/.git') ? /^(\/worktrees\/[^/]+)?\/index$/ : /^\/\.git\/index$/
  return (path: string): boolean => place.test(path)
}

/**
 * Takes a workspace down. Work that has not landed is moved to `archive/<id>`, also where the caller did not
 * ask for it: nothing is destroyed to tidy up. A tree that the user works in himself stays until he ends it. Gives what
 * is to be said of it.
 */
export async function disposeWorkspace(
  workspace: Workspace,
  options: DisposeOptions,
): Promise<readonly string[]> {
  const layout = layoutOf(workspace)
  const meta = await readInvocationMeta(layout, workspace.repoId, workspace.id)
  if (meta.outcome !== null) return []
  if (!options.archive && options.landed !== true && (await hasOwnWork(meta))) return []
  const outcome = options.landed === true ? 'landed' : 'disposed'
  return (await retireInvocation(layout, workspace.repoId, meta, outcome, options.archive)).notes
}

/**
 * Ends an invocation: sandbox to the archive (or away, where it holds nothing that has not landed), worktree
 * and branch out of the user's repository once the branch is archived. Called again after a crash it goes on
 * where it stopped.
 */
export async function retireInvocation(
  layout: Layout,
  repoId: RepoId,
  meta: InvocationMeta,
  outcome: 'landed' | 'discarded' | 'disposed',
  archive: boolean,
): Promise<{ archive: string | null; notes: string[] }> {
  const id = meta.invocation_id
  const dir = layout.sandbox(repoId, id)
  const isWorktree = meta.strategy === 'worktree'
  await using _lock = isWorktree ? await createRepoLock(layout).acquire(repoId) : null
  await refuseLinked(dir)
  // What has landed is to go whatever is mounted there; it is then the archive that keeps it.
  if (outcome !== 'landed') await refuseMounts(dir)
  // What goes by itself was found to hold nothing of the user's.
  if (archive || outcome !== 'disposed') await refuseWorktreesOf(meta)
  const untouched = async () => !(await hasWork(workspaceOf(layout, repoId, meta)))
  const keep =
    archive ||
    (isWorktree
      ? outcome !== 'disposed' || !(await untouched()) || !(await standsAtBase(meta))
      : outcome !== 'landed' && !(await untouched()))
  let folder: string | null = null
  let stays: string | null = null
  const notes: string[] = []
  if (keep) {
    const branch = isWorktree ? await keepBranch(layout, repoId, meta) : nothingKept
    const { published = [], ...kept } = branch.kept
    notes.push(...branch.notes)
    const record: PutAway = {
      id,
      repo_id: repoId,
      kind: 'invocation',
      name: meta.invocation_name ?? '',
      why: outcome,
      origin: dir,
      common_dir: meta.common_dir,
      branch: meta.sandbox_branch,
      ...kept,
      // Commits that have landed stay where they are.
      ...(outcome === 'landed' || published.length === 0 ? {} : { published }),
    }
    folder = await putAway(layout, record, isWorktree ? meta.sandbox_path : null)
    if (isWorktree) stays = await withdraw(meta, kept.tip)
  } else {
    await removeTree(dir)
    if (isWorktree) stays = await withdraw(meta, meta.base_commit)
  }
  await updateInvocation(layout, repoId, id, { outcome, archive: folder })
  return { archive: folder, notes: stays === null ? notes : [...notes, stays] }
}

type KeptBranch = {
  readonly kept: Pick<PutAway, 'tip' | 'commit' | 'aside' | 'published'>
  readonly notes: readonly string[]
}

/**
 * Where the sandbox branch stands, and the commit that holds all of its work: the agent's own last one. What
 * the user did in the tree meanwhile is kept beside it.
 */
async function keepBranch(layout: Layout, repoId: RepoId, meta: InvocationMeta): Promise<KeptBranch> {
  if (meta.common_dir === null || !(await isFolder(meta.common_dir))) return nothingKept
  const repository = await openRepository(meta.common_dir)
  const tree = (await isFolder(meta.sandbox_path)) ? meta.sandbox_path : null
  const standing = await repository.commit(`refs/heads/${meta.sandbox_branch}`)
  // A branch that the user renamed is theirs and stays; its commit is still what the tree was on.
  const tip = standing ?? (tree === null ? null : await treeHead(repository, tree))
  const collected = await publishCommits(layout, repoId, meta.invocation_id, meta.common_dir)
  const published = collected.flatMap(({ ref, commit, isNew }) => (isNew === true ? [{ ref, commit }] : []))
  const own = lastCommit(collected, meta)
  const isStanding = tip !== null && tree !== null
  const { commit: theirs, notes } = isStanding
    ? await snapshotCommit(repository, tree, tip)
    : { commit: tip, notes: [] }
  const aside = isStanding ? await asideOf(repository, tree, tip) : {}
  if (own === undefined) return { kept: { tip, commit: theirs, aside, published }, notes }
  const isHeld =
    theirs === null || (await repository.try(['merge-base', '--is-ancestor', theirs, own.commit])).code === 0
  const all = isHeld ? aside : { ...aside, branch: theirs }
  return { kept: { tip, commit: own.commit, aside: all, published }, notes }
}
const nothingKept: KeptBranch = { kept: { tip: null, commit: null }, notes: [] }

/** Whether nothing was committed on the sandbox branch, from wherever. */
async function standsAtBase({
  common_dir: commonDir,
  sandbox_branch: branch,
  base_commit: base,
}: InvocationMeta) {
  if (commonDir === null || branch === null || base === null || !(await isFolder(commonDir))) return false
  return (await (await openRepository(commonDir)).commit(`refs/heads/${branch}`)) === base
}

/** Takes our worktree and branch out of the user's repository; the tree itself is in the archive by now. */
async function withdraw(meta: InvocationMeta, tip: string | null): Promise<string | null> {
  if (meta.common_dir === null || tip === null || meta.sandbox_branch === null) return null
  const repository = await openRepository(meta.common_dir)
  await removeWorktree(repository, meta.sandbox_path)
  return deleteBranch(repository, meta.sandbox_branch, tip)
}

/** A workspace lies at `<data dir>/repos/<repo>/sandboxes/<id>`. */
function layoutOf(workspace: Workspace): Layout {
  return layoutAt(resolve(workspace.dir, '..', '..', '..', '..'))
}
