import { mkdir, readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import { isDispatchId, type DispatchId, type RepoId } from '../../../shared/ids.ts'
import { archiveRecordSchema, type ArchiveRecord } from '../../../shared/invocation.ts'
import { ensurePrivateDir, writeFileAtomically } from '../../base/files.ts'
import type { Layout } from '../../base/paths.ts'
import { moveTree } from './closedFolders.ts'
import { forgetCollected } from '../git/commits.ts'
import { keepGitSide } from '../git/gitSide.ts'
import { refuseMounts } from '../find/mounts.ts'
import { refuseArchivedWorktrees } from '../git/nested.ts'
import { removeTree } from './removeTree.ts'
import { openRepository } from '../git/repository.ts'
import { reportToLog } from '../make/rollback.ts'
import { submodulesOf } from '../make/sandboxFolders.ts'
import { inspectInvocation, inspectWorktree, isFolder } from '../find/scan.ts'

export const archiveDays = 30
const dayMs = 24 * 60 * 60 * 1000

export const archiveRef = (id: DispatchId): string => `refs/orangery/archive/${id}`

/** Every ref of an archived thing, and where it stands. */
function refsOf({
  id,
  commit,
  aside,
}: Pick<PutAway, 'id' | 'commit' | 'aside'>): (readonly [string, string])[] {
  const others = Object.entries(aside ?? {}).map(([name, kept]) => [`-${name}`, kept] as const)
  return [['', commit] as const, ...others].flatMap(([suffix, kept]) =>
    kept == null ? [] : [[`${archiveRef(id)}${suffix}`, kept] as const],
  )
}

const folderOf = (layout: Layout, id: DispatchId): string => join(layout.archive, id)
export const contentOf = (layout: Layout, id: DispatchId): string => join(folderOf(layout, id), 'content')
/** Git's own folder of a checkout, as it was when it was put away. */
export const gitSideOf = (layout: Layout, id: DispatchId): string => join(folderOf(layout, id), 'git')
/** The records of an invocation that was broken when it was put away. */
export const recordsOf = (layout: Layout, id: DispatchId): string => join(folderOf(layout, id), 'records')
export const scratchOf = (layout: Layout, id: DispatchId): string => join(folderOf(layout, id), 'made')

export type PutAway = Omit<ArchiveRecord, 'schema_version' | 'archived_at' | 'expires_at'>
export type Aside = NonNullable<ArchiveRecord['aside']>

/**
 * Puts a folder of ours away: first the ref, then the record, then the move. After a crash anywhere the work
 * is in one of the two places, and calling it again goes on where it stopped.
 */
export async function putAway(
  layout: Layout,
  what: PutAway,
  /** A checkout that goes with it, whose side in git is kept too. */
  checkout: string | null = null,
): Promise<string> {
  const now = Date.now()
  const folder = folderOf(layout, what.id)
  // Cut off after the move: the record that was written when the tree still stood knows more than we do now.
  const moved = !(await isFolder(what.origin)) && (await isFolder(contentOf(layout, what.id)))
  if (moved && (await readArchive(layout, what.id).catch(() => null)) !== null) return folder
  if (what.common_dir !== null && what.commit !== null) {
    const repository = await openRepository(what.common_dir)
    for (const [ref, commit] of refsOf(what))
      await repository.git(['update-ref', '--create-reflog', ref, commit])
  }
  await ensurePrivateDir(layout.archive)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if (what.common_dir !== null && checkout !== null)
    await keepGitSide(what.common_dir, checkout, gitSideOf(layout, what.id))
  const record: ArchiveRecord = {
    schema_version: '1.0',
    ...what,
    archived_at: new Date(now).toISOString(),
    expires_at: new Date(now + archiveDays * dayMs).toISOString(),
  }
  await writeFileAtomically(join(folder, 'record.json'), `${JSON.stringify(record, null, 2)}\n`)
  if (await isFolder(what.origin)) await moveTree(what.origin, contentOf(layout, what.id))
  return folder
}

export async function readArchive(layout: Layout, id: DispatchId): Promise<ArchiveRecord> {
  const text = await readFile(join(folderOf(layout, id), 'record.json'), 'utf8').catch(() => null)
  const parsed = text === null ? null : archiveRecordSchema.safeParse(parseJson(text))
  if (parsed?.success === true) return parsed.data
  throw new OrangeryError('workspace.not_archived', `${id}: the archive does not hold it`, {
    kind: 'not_found',
    hint: `Work is kept for ${archiveDays} days after it was put away.`,
  })
}

export async function listArchive(layout: Layout): Promise<ArchiveRecord[]> {
  const ids = (await readdir(layout.archive).catch((): string[] => [])).filter(isDispatchId)
  const records = await Promise.all(ids.map((id) => readArchive(layout, id).catch(() => null)))
  return records.filter((record) => record !== null)
}

/** Takes the content back to where it was; there is none where an attempt that was cut off has done so. */
export async function takeBack(layout: Layout, record: ArchiveRecord): Promise<void> {
  const content = contentOf(layout, record.id)
  if (!(await isFolder(content))) return
  if (await isFolder(record.origin)) {
    throw new OrangeryError('workspace.restore_blocked', `${record.origin}: something is there already`, {
      kind: 'cannot_create',
      hint: 'Move it away first; the archive keeps its copy.',
    })
  }
  await ensurePrivateDir(dirname(record.origin))
  await moveTree(content, record.origin)
}

/**
 * `archived`: it lies in the archive. `between`: a restore was cut off, or what puts it away was. `back`: it is live,
 * and only the archive does not know yet.
 */
export async function whereIs(
  layout: Layout,
  record: Pick<ArchiveRecord, 'id' | 'repo_id' | 'kind' | 'origin'>,
): Promise<'archived' | 'between' | 'back'> {
  const repoId = record.repo_id as RepoId
  const { meta } =
    record.kind === 'worktree'
      ? await inspectWorktree(layout, repoId, record.id)
      : await inspectInvocation(layout, repoId, record.id)
  const isLive = meta !== null && meta.outcome === null
  const isKept = await isFolder(contentOf(layout, record.id))
  if (isLive) return isKept ? 'between' : 'back'
  return !isKept && (await isFolder(record.origin)) ? 'between' : 'archived'
}

export async function forgetArchive(
  layout: Layout,
  record: ArchiveRecord,
  /** What it brought into the repository: kept where it is live and may have brought it again. */
  published: 'goes' | 'stays' = 'goes',
): Promise<void> {
  await refuseMounts(folderOf(layout, record.id))
  if (record.common_dir !== null && record.commit !== null && (await isFolder(record.common_dir))) {
    const repository = await openRepository(record.common_dir)
    const brought = published === 'goes' ? (record.published ?? []) : []
    // Only while it stands where we put it.
    for (const [ref, commit] of [
      ...refsOf(record),
      ...brought.map(({ ref, commit }) => [ref, commit] as const),
    ])
      await repository.try(['update-ref', '-d', ref, commit])
  }
  await removeTree(folderOf(layout, record.id))
}

/**
 * Lets go of what has been kept for its time. Folders without a readable record stay, and so does whatever is on its
 * way in or out; of what is back, only the archive's own traces go. One that cannot go keeps no other.
 */
export async function expireArchive(
  layout: Layout,
  now = Date.now(),
  onKept: (record: ArchiveRecord, why: unknown) => Promise<void> | void = (record, why) =>
    reportToLog(layout)(`archive/${record.id}`, why),
): Promise<ArchiveRecord[]> {
  const gone: ArchiveRecord[] = []
  for (const record of await listArchive(layout)) {
    if (Date.parse(record.expires_at) > now) continue
    try {
      if (await expireOne(layout, record)) gone.push(record)
    } catch (why) {
      await onKept(record, why)
    }
  }
  return gone
}

async function expireOne(layout: Layout, record: ArchiveRecord): Promise<boolean> {
  const where = await whereIs(layout, record)
  if (where === 'back') await forgetArchive(layout, record, 'stays')
  if (where !== 'archived') return false
  await refuseArchivedWorktrees(record, contentOf(layout, record.id))
  await forgetArchive(layout, record)
  // An integration worktree's tree lies in the archive, the repositories of its submodules where they were.
  if (record.kind === 'worktree') await removeTree(submodulesOf(dirname(record.origin)))
  else if (record.why !== 'landed') await forgetCollected(layout, record.repo_id as RepoId, record.id)
  return true
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}
