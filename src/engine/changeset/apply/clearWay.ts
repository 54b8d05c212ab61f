import { OrangeryError } from '../../../shared/errors.ts'
import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import { forgetApplying, listApplying } from './applying.ts'
import type { ChangesetLocks } from '../changesetLocks.ts'
import { Journals, type Journal } from './journal.ts'
import { recoverChangeset } from './recover.ts'
import type { ApplyContext } from './transaction.ts'

/**
 * Nothing lands where another landing is half done: its old and new contents would be judged by what came in
 * between. One of the same project is brought to its end first, the caller having the project's lock.
 */
export async function clearWay(
  context: ApplyContext,
  record: ChangesetRecord,
  locked: ChangesetLocks,
): Promise<void> {
  const { records } = context
  const noted = listApplying(context) ?? records.list().map(({ id }) => id)
  for (const id of noted) {
    const other = id === record.id ? null : records.find(id)
    if (other === null || (await halfDone(context, other, record)) === undefined) continue
    if (other.repoId === record.repoId) {
      await using _lock = await locked.one(id)
      await recoverChangeset(context, other).then(
        () => forgetApplying(context, id),
        (error: unknown) => records.escalate(id, error instanceof Error ? error.message : '', 'orangery'),
      )
    }
    const journal = await halfDone(context, other, record)
    if (journal !== undefined) throw inTheMiddle(record, journal)
  }
}

async function halfDone(
  { layout, disk }: ApplyContext,
  { repoId, id }: ChangesetRecord,
  { workspace }: ChangesetRecord,
): Promise<Journal | undefined> {
  // One that is just being closed is gone when its turn to be read comes.
  const open = await new Journals(layout.changeset(repoId, id), disk).open().catch(() => [])
  return open.find(
    ({ state, operations }) =>
      state === 'committing' &&
      operations.some(({ root }) => workspace.roots.some(({ path }) => areOneInTheOther(root, path))),
  )
}

const areOneInTheOther = (a: string, b: string) => `${a}/`.startsWith(`${b}/`) || `${b}/`.startsWith(`${a}/`)

function inTheMiddle({ id }: ChangesetRecord, { id: other, kind, stopped }: Journal): OrangeryError {
  return new OrangeryError(
    'changeset.other_half_done',
    `changeset ${id}: the ${kind} of ${other} in the same folders is half done`,
    {
      kind: 'busy',
      hint:
        stopped === undefined
          ? `Nothing was changed. \`orangery changeset show ${other}\` says what it waits for.`
          : `Nothing was changed. Say first what becomes of ${stopped.path}: \`orangery changeset settle ${other} mine|theirs --path ${stopped.path}\`.`,
      details: { id: other },
    },
  )
}
