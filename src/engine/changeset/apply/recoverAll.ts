import type { DispatchId } from '../../../shared/ids.ts'
import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import { forgetApplying, keepApplying, listApplying, noteApplying } from './applying.ts'
import type { ChangesetLocks } from '../changesetLocks.ts'
import { Journals } from './journal.ts'
import { recoverChangeset } from './recover.ts'
import { hasOpenJournal, type ApplyContext } from './transaction.ts'

/** Has the folders of a changeset to itself until it is let go of; null where somebody else has them now. */
export type ClaimFolders = (id: DispatchId) => Promise<AsyncDisposable | null>

/** Those whose landing is under way or was cut off. */
export async function listUnfinished(context: ApplyContext): Promise<readonly ChangesetRecord[]> {
  const { records } = context
  const noted = listApplying(context)
  const suspects = noted === null ? records.list() : noted.flatMap((id) => records.find(id) ?? [])
  const unfinished: ChangesetRecord[] = []
  for (const record of suspects) if (await hasOpenJournal(context, record)) unfinished.push(record)
  return unfinished
}

/** Brings each to its end. One that somebody has the folders of is left to him, or to the next who comes by. */
export async function recoverAll(
  context: ApplyContext,
  locked: ChangesetLocks,
  claim: ClaimFolders,
): Promise<void> {
  const isKept = listApplying(context) !== null
  for (const record of await listUnfinished(context)) {
    await using claimed = await claim(record.id)
    // It needs a person, who has been told; the others do not have to wait for him.
    if (claimed !== null) await recoverOne(context, locked, record).catch(() => {})
    if (!isKept && (await hasOpenJournal(context, record))) await noteApplying(context, record.id)
  }
  if (!isKept) await keepApplying(context)
}

/** The caller has its folders to himself. What a person has to see to is flagged to one, and thrown. */
export async function recoverOne(
  context: ApplyContext,
  locked: ChangesetLocks,
  record: ChangesetRecord,
): Promise<void> {
  const { records } = context
  await using _lock = await locked.landing(record)
  try {
    const notes = await recoverChangeset(context, record)
    await forgetApplying(context, record.id)
    if (notes.length > 0) records.escalate(record.id, notes.join('; '), 'orangery')
  } catch (error) {
    records.escalate(record.id, error instanceof Error ? error.message : String(error), 'orangery')
    throw error
  }
}

/** Whether what is under way or was cut off is to end in a commit. One that nobody can read may be anything. */
export async function endsInCommit(context: ApplyContext, record: ChangesetRecord): Promise<boolean> {
  const journals = new Journals(context.layout.changeset(record.repoId, record.id), context.disk)
  return journals.open().then(
    (open) => open.some(({ commit }) => commit !== undefined),
    () => true,
  )
}
