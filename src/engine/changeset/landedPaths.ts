import type { ChangesetRecord } from '../base/changesetRecords.ts'
import type { BytePath } from './bytePath.ts'
import { Journals } from './journal.ts'
import type { Side } from './manifest.ts'
import type { ApplyContext } from './transaction.ts'

/** SHA-256 of what was at a path before the first apply touched it, and of what the last one left; null: nothing. */
export type LandedHash = { readonly before: string | null; readonly after: string | null }

/** Every path that applies of a changeset have written or removed and no undo took back. */
export async function landedPaths(
  context: ApplyContext,
  record: ChangesetRecord,
): Promise<Map<BytePath, LandedHash>> {
  const journals = new Journals(context.layout.changeset(record.repoId, record.id), context.disk)
  const paths = new Map<BytePath, LandedHash>()
  for (const { kind, state, transaction } of context.records.applies(record.id)) {
    if (kind !== 'apply' || state !== 'committed') continue
    for (const { path, before, after } of (await journals.readDone(transaction)).operations) {
      if ((after ?? before)?.kind === 'directory') continue
      const first = paths.get(path)
      paths.set(path, { before: first === undefined ? hashOf(before) : first.before, after: hashOf(after) })
    }
  }
  return paths
}

const hashOf = (side: Side | null): string | null => (side !== null && 'sha256' in side ? side.sha256 : null)
