import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import { Journals, type Journal } from './journal.ts'
import { Landing } from './land.ts'
import { followAfterCrash } from '../commits/missedCommit.ts'
import { NeitherOldNorNew } from './neither.ts'
import { BlobReader } from '../objects/objects.ts'
import { finish, stopAt, takeBack, throwAway, type ApplyContext } from './transaction.ts'

/**
 * Brings what a crash cut off to its end: forward if it can, back if not. The caller holds the project's lock, and is
 * told what did not work out beside the files.
 */
export async function recoverChangeset(
  context: ApplyContext,
  record: ChangesetRecord,
): Promise<readonly string[]> {
  const notes: string[] = []
  const journals = new Journals(context.layout.changeset(record.repoId, record.id), context.disk)
  const open = await journals.open()
  for (const journal of open) {
    await using landing = new Landing(journal, context.disk)
    if (journal.state === 'staging') {
      await throwAway(landing, journals, journal)
      continue
    }
    if (journal.state === 'committing') {
      const outcome = await resume(context, record, journals, landing, journal).catch(
        async (error: unknown) => {
          if (error instanceof NeitherOldNorNew) await stopAt(journals, journal, error)
          throw error
        },
      )
      if (outcome === 'back') continue
      await journals.write({ ...journal, state: 'committed' })
    }
    await finish(context, record, journal, landing, async () => {
      const followed = await followAfterCrash(context, record, journal)
      notes.push(...followed.notes)
      return followed.commits
    })
  }
  // What we flagged because it was half done is so no more.
  if (open.length > 0) context.records.escalate(record.id, null, 'orangery')
  return notes
}

/** What a recovery had to say is told with what was asked for, or, where that is refused, flagged: never lost. */
export async function recoverFirst(
  context: ApplyContext,
  record: ChangesetRecord,
): Promise<Disposable & { take(): readonly string[] }> {
  let untold = await recoverChangeset(context, record)
  return {
    take() {
      const notes = untold
      untold = []
      return notes
    },
    [Symbol.dispose]() {
      if (untold.length > 0) context.records.escalate(record.id, untold.join('; '), 'orangery')
    },
  }
}

async function resume(
  context: ApplyContext,
  record: ChangesetRecord,
  journals: Journals,
  landing: Landing,
  journal: Journal,
): Promise<'forward' | 'back'> {
  await using blobs = new BlobReader(context.layout.objects(record.repoId))
  try {
    await landing.restage(blobs)
    await landing.forward()
    return 'forward'
  } catch (error) {
    if (error instanceof NeitherOldNorNew) throw error
    await takeBack(landing, journals, journal)
    return 'back'
  }
}
