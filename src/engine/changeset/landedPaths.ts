import type { ChangesetRecord } from '../base/changesetRecords.ts'
import type { BytePath } from './bytePath.ts'
import { Journals } from './journal.ts'
import type { ApplyContext } from './transaction.ts'

/**
 * Every path that applies of a changeset have written or removed and no undo took back, and the SHA-256 of
 * what was left there; null where it was removed.
 */
export async function landedPaths(
  context: ApplyContext,
  record: ChangesetRecord,
): Promise<Map<BytePath, string | null>> {
  const journals = new Journals(context.layout.changeset(record.repoId, record.id), context.disk)
  const paths = new Map<BytePath, string | null>()
  for (const { kind, state, transaction } of context.records.applies(record.id)) {
    if (kind !== 'apply' || state !== 'committed') continue
    for (const { path, before, after } of (await journals.readDone(transaction)).operations) {
      if ((after ?? before)?.kind === 'directory') continue
      paths.set(path, after !== null && 'sha256' in after ? after.sha256 : null)
    }
  }
  return paths
}
