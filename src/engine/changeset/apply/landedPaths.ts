import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import type { BytePath } from '../bytePath.ts'
import { Journals } from './journal.ts'
import type { Side } from '../manifest.ts'
import type { ApplyContext } from './transaction.ts'

/** SHA-256 of what was at a path before the first apply touched it, and of what the last one left; null: nothing. */
export type LandedHash = {
  readonly before: string | null
  readonly after: string | null
  /** What the last one left, as git keeps it; the name is our own repository's. */
  readonly blob: { readonly mode: '100644' | '100755' | '120000'; readonly oid: string } | null
}

/**
 * Every path that applies of a changeset have written or removed and no undo took back; or those that undos have, each
 * with what the last one found and left.
 */
export async function landedPaths(
  context: ApplyContext,
  record: ChangesetRecord,
  by: 'apply' | 'undo' = 'apply',
): Promise<Map<BytePath, LandedHash>> {
  const journals = new Journals(context.layout.changeset(record.repoId, record.id), context.disk)
  const paths = new Map<BytePath, LandedHash>()
  for (const { kind, state, transaction } of context.records.applies(record.id)) {
    if (kind !== by || state !== 'committed') continue
    for (const { path, before, after } of (await journals.readDone(transaction)).operations) {
      if ((after ?? before)?.kind === 'directory') continue
      const first = by === 'apply' ? paths.get(path) : undefined
      paths.set(path, {
        before: first === undefined ? hashOf(before) : first.before,
        after: hashOf(after),
        blob: blobOf(after),
      })
    }
  }
  return paths
}

const hashOf = (side: Side | null): string | null => (side !== null && 'sha256' in side ? side.sha256 : null)

function blobOf(side: Side | null): LandedHash['blob'] {
  if (side?.kind === 'symlink') return { mode: '120000', oid: side.oid }
  if (side?.kind !== 'file') return null
  return { mode: (side.mode & 0o100) === 0 ? '100644' : '100755', oid: side.oid }
}
