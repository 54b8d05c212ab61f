import { randomBytes } from 'node:crypto'
import type { MadeCommit } from '../../../shared/changeset.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { shellLine } from '../../../shared/shellLine.ts'
import type { ChangesetRecord, ChangesetRecords } from '../../base/changesetRecords.ts'
import type { Layout } from '../../base/paths.ts'
import { forgetApplying, noteApplying } from './applying.ts'
import { readBases, writeBases } from '../capture/bases.ts'
import { renewPlaces } from '../review/carryDecisions.ts'
import { decisionsOf } from '../review/decisions.ts'
import { errorCode, type Disk } from '../disk.ts'
import { Journals, type Journal } from './journal.ts'
import { Landing } from './land.ts'
import { approvalsOfLanded } from '../review/landedApprovals.ts'
import { NeitherOldNorNew } from './neither.ts'
import { BlobReader } from '../objects/objects.ts'
import { adoptBases } from './rebase.ts'
import { SavedManifests } from '../saved.ts'
import { closedFolder, immutableFile, stagingPlaces } from './stagingPlaces.ts'
import type { Operation } from './steps.ts'
import { Tree } from '../objects/tree.ts'
import { readView } from '../review/view.ts'

export type ApplyContext = {
  readonly layout: Layout
  readonly records: ChangesetRecords
  readonly disk: Disk
}

export function newJournal(
  record: ChangesetRecord,
  by: string,
  rest: Omit<Journal, 'version' | 'transaction' | 'id' | 'state' | 'by' | 'at' | 'revision'>,
): Journal {
  const at = new Date().toISOString()
  const transaction = `${record.id}-${randomBytes(4).toString('hex')}`
  return {
    version: 1,
    transaction,
    id: record.id,
    state: 'staging',
    by,
    at,
    revision: record.revision,
    ...rest,
  }
}

/** Journal, stage, commit. A failure on the way leaves every original as it was. */
export async function carryOut(
  context: ApplyContext,
  record: ChangesetRecord,
  planned: Journal,
  follow: () => Promise<readonly MadeCommit[]> = async () => [],
): Promise<void> {
  const owned = await withOwners(planned, context.disk).catch(async (error: unknown) => {
    throw await landingFailure(planned, error)
  })
  const journal = { ...owned, places: await stagingPlaces(owned.operations) }
  const journals = new Journals(context.layout.changeset(record.repoId, record.id), context.disk)
  await using blobs = new BlobReader(context.layout.objects(record.repoId))
  await using landing = new Landing(journal, context.disk)
  let stage: Journal['state'] = 'staging'
  try {
    await noteApplying(context, record.id)
    await journals.write(journal)
    await landing.stage(blobs)
    const { modeless } = landing
    await journals.write({ ...journal, modeless, state: 'committing' })
    stage = 'committing'
    await landing.forward()
    await journals.write({ ...journal, modeless, state: 'committed' })
    stage = 'committed'
  } catch (error) {
    if (stage === 'committed') throw error
    try {
      if (stage === 'committing') await takeBack(landing, journals, journal)
      else await throwAway(landing, journals, journal)
      await forgetApplying(context, record.id)
    } catch (failure) {
      if (!(failure instanceof NeitherOldNorNew)) throw cutOff(journal, error, failure)
      await stopAt(journals, { ...journal, modeless: landing.modeless, state: 'committing' }, failure)
      context.records.escalate(record.id, failure.message, 'orangery')
      throw failure
    }
    throw await landingFailure(journal, error)
  }
  await finish(context, record, journal, landing, follow).catch((error: unknown) => {
    const why = error instanceof Error ? error.message : String(error)
    throw new OrangeryError(
      'changeset.record_behind',
      `the ${journal.kind} of changeset ${record.id} has landed, but its record could not be written: ${why}`,
      { kind: 'cannot_create', hint: 'The record catches up on the next start or apply.', cause: error },
    )
  })
}

/** A root without its powers is locked out like anybody else, and has nothing to give away. */
function lockedOut(error: unknown): null {
  if (errorCode(error) === 'EACCES') return null
  throw error
}

/** Who is root gives a file that comes back to whom it belonged to; for anybody else it is his own. */
async function withOwners(journal: Journal, disk: Disk): Promise<Journal> {
  if (process.getuid?.() !== 0) return journal
  await using trees = new AsyncDisposableStack()
  const byRoot = new Map<string, Tree>()
  const operations: Operation[] = []
  for (const operation of journal.operations) {
    const { root, path, before, owner } = operation
    const tree = byRoot.get(root) ?? trees.use(new Tree(root, disk))
    byRoot.set(root, tree)
    const stat = before === null || owner !== undefined ? null : await tree.lstat(path).catch(lockedOut)
    const known = stat === null ? owner : { uid: Number(stat.uid), gid: Number(stat.gid) }
    operations.push(known === undefined ? operation : { ...operation, owner: known })
  }
  return { ...journal, operations }
}

/** A person has to look at that file first; nothing else is touched until then. */
export async function stopAt(
  journals: Journals,
  journal: Journal,
  { place }: NeitherOldNorNew,
): Promise<void> {
  await journals.write({ ...journal, stopped: place }).catch(() => {})
}

export async function takeBack(landing: Landing, journals: Journals, journal: Journal): Promise<void> {
  await landing.back()
  await journals.takenBack(journal.transaction)
  await throwAway(landing, journals, journal)
}

/** No original is touched, or none any more: what waited to land goes. */
export async function throwAway(landing: Landing, journals: Journals, journal: Journal): Promise<void> {
  await landing.clear()
  await journals.remove(journal.transaction)
}

/** All originals are new: makes the records say so. May be done again after a crash. */
export async function finish(
  context: ApplyContext,
  record: ChangesetRecord,
  journal: Journal,
  landing: Landing,
  follow: () => Promise<readonly MadeCommit[]>,
): Promise<void> {
  const folder = context.layout.changeset(record.repoId, record.id)
  const saved = new SavedManifests(folder, context.disk)
  const revision = await saved.write(journal.manifest)
  const gitDir = context.layout.objects(record.repoId)
  const { whole } = journal
  const landed = whole === undefined ? null : await readView(gitDir, await saved.write(whole), whole)
  const bases = await readBases(folder)
  adoptBases(bases, journal.bases)
  await writeBases(folder, bases, context.disk)
  const view = await readView(gitDir, revision, journal.manifest)
  const counted = journal.outcome === 'applied' ? landed : view
  // When nothing remains, the record goes on saying how much landed.
  const { files, insertions, deletions } =
    counted === null ? record : { ...counted, files: counted.files.length }
  context.records.applied(
    record.id,
    {
      transaction: journal.transaction,
      kind: journal.kind,
      revision: landed?.revision ?? journal.revision,
      at: journal.at,
      by: journal.by,
      state: 'committed',
      undoes: journal.undoes,
    },
    { revision, files, insertions, deletions },
    journal.outcome,
    journal.why,
  )
  renewPlaces(context.records, record.id, view)
  if (journal.kind === 'undo') {
    const before = await readView(gitDir, '', journal.previous)
    const decisions = decisionsOf(context.records, record.id)
    context.records.decide(record.id, approvalsOfLanded(view, before, decisions))
  }
  await landing.clear()
  // Open until then: what a crash prevents is done by the next start.
  const commits = await follow()
  const journals = new Journals(folder, context.disk)
  if (commits.length > 0) await journals.write({ ...journal, state: 'committed', commits: [...commits] })
  await journals.close(journal.transaction)
  await forgetApplying(context, record.id)
}

export async function hasOpenJournal(context: ApplyContext, record: ChangesetRecord): Promise<boolean> {
  const folder = context.layout.changeset(record.repoId, record.id)
  return (await new Journals(folder, context.disk).openNames()).length > 0
}

/** The path that a person has to settle before anything more lands; null where there is none. */
export async function stoppedAt(
  context: ApplyContext,
  record: ChangesetRecord,
): Promise<Journal['stopped'] | null> {
  const folder = context.layout.changeset(record.repoId, record.id)
  // One that is just being closed is gone when its turn to be read comes.
  const open = await new Journals(folder, context.disk).open().catch(() => [])
  return open.find(({ stopped }) => stopped !== undefined)?.stopped ?? null
}

/** A path in an error of the system may be one of ours, below a descriptor, that says nothing to anybody. */
const folders = 'one of its folders'
const reasons: Readonly<Record<string, string>> = {
  EACCES: `${folders} may not be written by you`,
  EPERM: `${folders} may not be written by you`,
  EROFS: `${folders} is on a read-only file system`,
  ENOSPC: 'no space is left on the disk',
  EDQUOT: 'no space is left on the disk',
}

async function landingFailure(journal: Journal, error: unknown): Promise<unknown> {
  if (error instanceof NeitherOldNorNew)
    return new OrangeryError(
      error.code,
      `cannot ${journal.kind}: somebody wrote ${error.place.path} meanwhile`,
      {
        kind: 'busy',
        hint: `Nothing was changed. Look at it, then ${journal.kind} again.`,
        details: error.place,
      },
    )
  if (error instanceof OrangeryError) return error
  const code = (error as NodeJS.ErrnoException).code ?? ''
  const said = reasons[code] ?? (error instanceof Error ? error.message : String(error))
  const folder = said.startsWith(folders) ? await closedFolder(journal.operations) : null
  const file = code === 'EPERM' && folder === null ? await immutableFile(journal.operations) : null
  const why =
    folder !== null
      ? said.replace(folders, folder)
      : code === 'EPERM'
        ? `${file ?? 'one of its files'} may not be replaced by you`
        : said
  const place = shellLine(['lsattr', '-d', ...[file ?? folder].flatMap((each) => each ?? [])])
  const cause =
    code === 'EPERM'
      ? ` \`${place}\` shows an i or a where one is immutable or append-only; \`chattr\` takes it off.`
      : ''
  return new OrangeryError(
    'changeset.apply_failed',
    `cannot ${journal.kind} changeset ${journal.id}: ${why}`,
    {
      kind: 'cannot_create',
      hint:
        code in reasons ? `Nothing was changed.${cause} Mend that, then try again.` : 'Nothing was changed.',
      cause: error,
    },
  )
}

/** Could neither go on nor back. The journal stays: the next start, or the next apply, brings it to its end. */
function cutOff(journal: Journal, error: unknown, failure: unknown): OrangeryError {
  const why = error instanceof Error ? error.message : String(error)
  return new OrangeryError(
    'changeset.apply_cut_off',
    `the ${journal.kind} of changeset ${journal.id} was cut off: ${why}`,
    {
      kind: 'busy',
      hint: 'Some files may be new and some old. Mend the cause, then try again: it is finished or taken back first.',
      cause: failure,
    },
  )
}
