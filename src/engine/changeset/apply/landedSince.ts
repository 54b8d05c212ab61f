import type { DispatchId } from '../../../shared/ids.ts'
import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import type { BytePath } from '../bytePath.ts'
import { Journals } from './journal.ts'
import type { Side } from '../manifest.ts'
import { placeOf } from '../review/overlaps.ts'
import type { ApplyContext } from './transaction.ts'

/** What another changeset left at a place. */
export type LandedSince = { readonly id: DispatchId; readonly after: Side | null }

/** By where files lie, in whatever roots: what other changesets have landed since and nobody took back, the last of each. */
export async function landedSince(
  { layout, disk, records }: ApplyContext,
  record: ChangesetRecord,
  since: string,
): Promise<ReadonlyMap<BytePath, LandedSince>> {
  const later = records
    .list()
    .filter(({ id }) => id !== record.id)
    .flatMap(({ id, repoId }) => records.applies(id).map((apply) => ({ ...apply, id, repoId })))
    .filter(({ kind, state, at }) => kind === 'apply' && state === 'committed' && at >= since)
    .toSorted((a, b) => (a.at < b.at ? -1 : 1))
  const found = new Map<BytePath, LandedSince>()
  for (const { id, repoId, transaction } of later) {
    const journals = new Journals(layout.changeset(repoId, id), disk)
    // One that is lost only leaves its name untold.
    const journal = await journals.readDone(transaction).catch(() => null)
    for (const { after, left, ...at } of journal?.operations ?? [])
      if (left !== true) found.set(placeOf(at), { id, after })
  }
  return found
}
