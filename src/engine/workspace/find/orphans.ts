import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import type { ArchiveRecord, Orphan } from '../../../shared/invocation.ts'
import { ownEmail } from '../../base/git.ts'
import type { InvocationEntry, WorktreeEntry } from '../../base/invocation.ts'
import { integrationMarker, sandboxMarker } from '../../base/markers.ts'
import { realFolder, type Layout } from '../../base/paths.ts'
import { listArchive, whereIs } from '../end/archive.ts'
import { worktreePaths } from '../end/checkout.ts'
import { listRunning } from './claim.ts'
import { hasWork } from '../end/dispose.ts'
import { holderOf } from '../git/gitSide.ts'
import { workspaceOf } from './invocation.ts'
import { hasMarker, putBack } from './marker.ts'
import { openRepository, type Repository } from '../git/repository.ts'
import { isFolder, scanInvocations, scanWorktrees } from './scan.ts'

/** A row of the database, as far as it matters here. */
export type KnownDispatch = { readonly id: string; readonly isLive: boolean }

export type OrphanOptions = {
  /** Sandboxes the database has seen standing. */
  readonly seen?: readonly { readonly id: string; readonly place: string }[]
  /** Whether the database has a dispatch of this id; left out, nothing is asked of it. */
  readonly isKnown?: (id: DispatchId) => boolean
  /** Folders younger than this may be in the making. */
  readonly settledMs?: number
}

/**
 * Compares disk, repositories and database, and says what belongs to nothing. It looks only: what it finds
 * may be somebody's work.
 */
export async function findOrphans(
  layout: Layout,
  dispatches: readonly KnownDispatch[] = [],
  options: OrphanOptions = {},
): Promise<Orphan[]> {
  const invocations = await scanInvocations(layout)
  const worktrees = await scanWorktrees(layout)
  const orphans: Orphan[] = []
  for (const { id, repo_id, broken, meta, why } of invocations) {
    if (!broken) continue
    const folders = ['sandboxes', 'invocations'].map((part) => join(layout.repos, repo_id, part, id))
    if (meta === null && (await isYoung(folders, options.settledMs ?? 0))) continue
    orphans.push({
      kind: meta === null ? 'sandbox_without_record' : 'record_without_sandbox',
      id,
      place: folders[meta === null ? 0 : 1] as string,
      why: why ?? '',
      hint: `orangery agent discard ${id}`,
    })
  }
  for (const { id, repo_id, broken, meta, why } of worktrees) {
    if (!broken) continue
    const place = join(layout.repos, repo_id, 'worktrees', id)
    if (meta === null && (await isYoung([place], options.settledMs ?? 0))) continue
    orphans.push({
      kind: meta === null ? 'worktree_without_record' : 'record_without_worktree',
      id,
      place,
      why: why ?? '',
      hint: `orangery worktree rm ${id} --force`,
    })
  }
  const onDisk = new Set(invocations.map(({ id }) => id))
  for (const { id, isLive } of dispatches) {
    if (isLive && !onDisk.has(id)) {
      orphans.push({
        kind: 'row_without_record',
        id,
        place: layout.database,
        why: 'it is recorded as running, and has nothing on disk',
        hint: `orangery dispatch kill ${id}`,
      })
    }
  }
  const records = await listArchive(layout)
  const archived = new Set<string>(records.map(({ id }) => id))
  for (const { id, place } of options.seen ?? []) {
    if (onDisk.has(id) || archived.has(id)) continue
    orphans.push({
      kind: 'record_lost',
      id,
      place,
      why: 'the database knows this sandbox, and neither it nor its record is on disk',
      hint: `orangery agent discard ${id}`,
    })
  }
  if (options.isKnown !== undefined)
    orphans.push(...(await unknownWork(layout, invocations, options.isKnown)))
  orphans.push(...(await lonelyTrees(invocations, worktrees)))
  const commonDirs = new Set(
    [...invocations, ...worktrees]
      .map(({ meta }) => meta?.common_dir ?? null)
      .filter((path) => path !== null),
  )
  const unfinished = await unfinishedRestores(layout, records)
  orphans.push(...unfinished)
  // What is told as a whole is not told again by its parts, with advice that would cost it its commits.
  const told = new Set([
    ...invocations.filter(({ broken, meta }) => broken || meta?.outcome === null).map(({ id }) => id),
    ...unfinished.map(({ id }) => id),
  ])
  const standing = worktrees.filter(({ broken, meta }) => broken || meta?.outcome === null)
  for (const commonDir of commonDirs)
    orphans.push(...(await orphansInGit({ layout, commonDir, told, standing, records })))
  orphans.push(...(await orphansInArchive(layout, records)))
  return orphans
}

async function isYoung(folders: readonly string[], settledMs: number): Promise<boolean> {
  if (settledMs === 0) return false
  const times = await Promise.all(
    folders.map((path) =>
      lstat(path).then(
        (info) => info.mtimeMs,
        () => 0,
      ),
    ),
  )
  return Date.now() - Math.max(...times) < settledMs
}

/** Sandboxes somebody worked in, of which the database knows nothing: it was lost, or an old copy was put back. */
async function unknownWork(
  layout: Layout,
  invocations: readonly InvocationEntry[],
  isKnown: (id: DispatchId) => boolean,
): Promise<Orphan[]> {
  const orphans: Orphan[] = []
  const candidates = invocations.filter(
    ({ id, broken, meta }) =>
      !broken &&
      meta !== null &&
      meta.outcome === null &&
      meta.strategy !== 'none' &&
      !isKnown(id as DispatchId),
  )
  const running = candidates.length === 0 ? [] : (await listRunning(layout)).map((run) => String(run.id))
  for (const { id, repo_id, meta } of candidates) {
    if (meta === null || running.includes(id)) continue
    const workspace = workspaceOf(layout, repo_id as RepoId, meta)
    if (!(await hasWork(workspace))) continue
    orphans.push({
      kind: 'work_unknown',
      id,
      place: workspace.dir,
      why: 'it holds work, and the database has neither a dispatch nor a changeset of it',
      hint: takeInAgain(id),
    })
  }
  return orphans
}

/** A run that does nothing ends as any other: what is in the sandbox goes to review. */
export const takeInAgain = (id: string): string => `orangery run --invocation ${id} -- true`

type Look = {
  readonly layout: Layout
  readonly commonDir: string
  /** Sandboxes that stand, or are told otherwise. */
  readonly told: ReadonlySet<string>
  /** Integration worktrees of the kind. */
  readonly standing: readonly WorktreeEntry[]
  readonly records: readonly ArchiveRecord[]
}

/** Branches and worktrees of our making that no sandbox belongs to any more. */
async function orphansInGit(look: Look): Promise<Orphan[]> {
  const { layout, commonDir, told, standing } = look
  if (!(await isFolder(commonDir))) return []
  const repository = await openRepository(commonDir)
  const orphans: Orphan[] = []
  const branches = await repository.git([
    'for-each-ref',
    '--format=%(refname:lstrip=2)',
    'refs/heads/agency/',
  ])
  for (const branch of branches.split('\n')) {
    const owner = ownerOf(branch, look)
    // One that was left because somebody has it checked out is theirs now.
    if (owner === null || owner.isTold || (await holderOf(commonDir, branch)) !== null) continue
    const { kind, id, archived } = owner
    if (!archived && !(await isOurMaking(repository, branch, kind))) continue
    const what = kind === 'worktree' ? 'worktree' : 'sandbox'
    orphans.push({
      kind: `branch_without_${what}`,
      id,
      place: `${commonDir} ${branch}`,
      why: archived ? `its ${what} is in the archive` : `no ${what} belongs to this branch`,
      // Git itself refuses this while commits are nowhere else.
      hint: archived
        ? `orangery ${kind === 'worktree' ? 'worktree' : 'agent'} restore ${id}`
        : `git --git-dir=${commonDir} branch -d ${branch}`,
    })
  }
  const repos = `${realFolder(layout.repos)}/`
  for (const path of await worktreePaths(repository)) {
    const [, what, id] =
      (path.startsWith(repos) ? /\/(sandboxes|worktrees)\/([^/]+)\/tree$/.exec(path) : null) ?? []
    const isTold = id === undefined || told.has(id) || standing.some((each) => each.id === id)
    if (isTold || (await isFolder(path))) continue
    orphans.push({
      kind: what === 'worktrees' ? 'registered_without_worktree' : 'registered_without_sandbox',
      id,
      place: path,
      why: `git knows ${what === 'worktrees' ? 'an integration worktree' : 'a worktree'} here, and it is gone`,
      hint: `git --git-dir=${commonDir} worktree remove --force ${path}`,
    })
  }
  return orphans
}

type BranchOwner = {
  readonly kind: ArchiveRecord['kind']
  readonly id: string
  readonly isTold: boolean
  readonly archived: boolean
}

/**
 * Whether the branch was made by us, as the way it went tells. Where nobody kept that, the whole id of a sandbox does; the
 * name says little of a branch `agency/x-2024`.
 */
async function isOurMaking(
  repository: Repository,
  branch: string,
  kind: BranchOwner['kind'],
): Promise<boolean> {
  const way = await repository.try(['reflog', 'show', '--format=%ge', `refs/heads/${branch}`])
  const maker = way.stdout.toString().trim().split('\n').at(-1) ?? ''
  return maker === ownEmail || (maker === '' && kind === 'invocation')
}

/** Whose a branch is by its name: that of a sandbox has its whole id, that of an integration worktree the end of it. */
function ownerOf(branch: string, { told, standing, records }: Look): BranchOwner | null {
  const [, sandbox, end] = /^agency\/(?:sandbox-(\d{14}-[0-9a-f]{4})|.+(-[0-9a-f]{4}))$/.exec(branch) ?? []
  if (sandbox !== undefined) {
    const archived = records.some(({ id }) => id === sandbox)
    return { kind: 'invocation', id: sandbox, isTold: told.has(sandbox), archived }
  }
  if (end === undefined) return null
  const record = records.find((each) => each.kind === 'worktree' && each.branch === branch)
  const isTold =
    standing.some(({ id, meta }) => (meta === null ? id.endsWith(end) : meta.branch === branch)) ||
    (record !== undefined && told.has(record.id))
  const archived = record !== undefined
  return { kind: 'worktree', id: record?.id ?? branch, isTold, archived }
}

/** Restores that were cut off between archive and record. */
async function unfinishedRestores(layout: Layout, records: readonly ArchiveRecord[]): Promise<Orphan[]> {
  const orphans: Orphan[] = []
  for (const record of records) {
    const { id, kind, origin } = record
    if ((await whereIs(layout, record)) !== 'between' || !(await isFolder(origin))) continue
    orphans.push({
      kind: 'restore_unfinished',
      id,
      place: origin,
      why: 'it is on its way out of the archive, and that was cut off',
      hint: `orangery ${kind === 'worktree' ? 'worktree' : 'agent'} restore ${id}`,
    })
  }
  return orphans
}

async function orphansInArchive(layout: Layout, records: readonly ArchiveRecord[]): Promise<Orphan[]> {
  const recorded = new Set(records.map(({ id }) => String(id)))
  const folders = await readdir(layout.archive).catch((): string[] => [])
  return folders
    .filter((name) => !recorded.has(name))
    .map((name) => ({
      kind: 'archive_without_record' as const,
      id: name,
      place: join(layout.archive, name),
      why: 'it has no readable record, so it is kept',
      hint: 'Look at the folder; nothing of it is touched.',
    }))
}

/** Sandboxes and worktrees whose repository is gone, or whose tree does not say any more what it is. */
async function lonelyTrees(
  invocations: readonly InvocationEntry[],
  worktrees: readonly WorktreeEntry[],
): Promise<Orphan[]> {
  const trees = [
    ...invocations.map(({ id, broken, meta }) => ({
      id,
      broken,
      meta,
      ...(meta?.strategy === 'worktree' ? { tree: meta.sandbox_path, marker: sandboxMarker } : {}),
      end: `orangery agent discard ${id}`,
    })),
    ...worktrees.map(({ id, broken, meta }) => ({
      id,
      broken,
      meta,
      ...(meta === null ? {} : { tree: meta.tree_path, marker: integrationMarker }),
      end: `orangery worktree rm ${id} --force`,
    })),
  ]
  const orphans: Orphan[] = []
  for (const { id, broken, meta, tree, marker, end } of trees) {
    if (broken || meta === null || meta.outcome !== null) continue
    const place = meta.common_dir
    if (place !== null && !(await isFolder(place))) {
      const why = 'its repository is not there any more'
      const hint = `Put the repository back, or: ${end}`
      orphans.push({ kind: 'repository_gone', id, place, why, hint })
    }
    if (tree === undefined || marker === undefined || (await hasMarker(tree, marker))) continue
    const why = `its tree carries no ${marker}, so nothing starts from it`
    orphans.push({
      kind: 'marker_missing',
      id,
      place: tree,
      why,
      hint: `If it is the right tree: ${putBack(tree, marker)}`,
    })
  }
  return orphans
}
