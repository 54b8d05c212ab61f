import type { DispatchId } from '../../shared/ids.ts'
import type { ChangesetRecord } from '../base/changesetRecords.ts'
import type { RepoLock } from '../base/lock.ts'

export type ChangesetLocks = {
  /** Held by whoever writes its bases and revisions or moves its state: a look at it, a landing, a person. */
  one(id: DispatchId): Promise<AsyncDisposable>
  /** Applies to one project are serial, and no look at the same changeset comes in between. */
  landing(record: Pick<ChangesetRecord, 'id' | 'repoId'>): Promise<AsyncDisposable>
}

export function changesetLocks(locks: RepoLock): ChangesetLocks {
  const one = (id: DispatchId) => locks.acquire(`capture-${id}`, { timeoutMs: 60_000 })
  return {
    one,
    async landing({ id, repoId }) {
      await using held = new AsyncDisposableStack()
      held.use(await locks.acquire(`apply-${repoId}`, { timeoutMs: 30_000 }))
      held.use(await one(id))
      return held.move()
    },
  }
}
