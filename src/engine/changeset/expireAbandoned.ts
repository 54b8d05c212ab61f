import { rm } from 'node:fs/promises'
import type { DispatchId } from '../../shared/ids.ts'
import type { RepoLock } from '../base/lock.ts'
import type { ApplyContext } from './transaction.ts'

const keptDays = 30
const dayMs = 24 * 60 * 60 * 1000

/** Lets go of what was abandoned and not asked for again in its time. The dispatch and its log stay. */
export async function expireAbandoned(
  { layout, records }: ApplyContext,
  locks: RepoLock,
  now: number,
): Promise<readonly DispatchId[]> {
  const isDue = (id: DispatchId) => {
    const last = records.transitions(id).at(-1)
    return last?.to === 'abandoned' && Date.parse(last.at) + keptDays * dayMs <= now
  }
  const expired: DispatchId[] = []
  for (const { id, repoId, state } of records.list()) {
    if (state !== 'abandoned' || !isDue(id)) continue
    await using _lock = await locks.acquire(`capture-${id}`, { timeoutMs: 5_000 })
    // Somebody may have asked for it while we waited.
    if (records.find(id)?.state !== 'abandoned' || !isDue(id)) continue
    await rm(layout.changeset(repoId, id), { recursive: true, force: true })
    records.forget(id)
    expired.push(id)
  }
  return expired
}
