import type { ChangesetRecord } from '../base/changesetRecords.ts'
import { toBytes } from './bytePath.ts'
import { Journals } from './journal.ts'
import type { ApplyContext } from './transaction.ts'

/** Every path that applies of a changeset have written or removed and no undo took back, with its exact bytes. */
export async function landedPaths(context: ApplyContext, record: ChangesetRecord): Promise<Buffer[]> {
  const journals = new Journals(context.layout.changeset(record.repoId, record.id), context.disk)
  const paths = new Set<string>()
  for (const { kind, state, transaction } of context.records.applies(record.id)) {
    if (kind !== 'apply' || state !== 'committed') continue
    for (const { path, before, after } of (await journals.readDone(transaction)).operations) {
      if ((after ?? before)?.kind !== 'directory') paths.add(path)
    }
  }
  return [...paths].map(toBytes)
}
