import { rm } from 'node:fs/promises'
import type { DispatchId, RepoId } from '../../shared/ids.ts'
import type { RepoLock } from '../base/lock.ts'
import { collectObjects } from './objects/collectObjects.ts'
import type { ApplyContext } from './apply/transaction.ts'

const keptDays = 30
const dayMs = 24 * 60 * 60 * 1000

/** Lets go of what was abandoned and not asked for again in its time. The dispatch and its log stay. */
export async function expireAbandoned(
  context: ApplyContext,
  locks: RepoLock,
  now: number,
): Promise<readonly DispatchId[]> {
  const { layout, records } = context
  const isDue = (id: DispatchId) => {
    const last = records.transitions(id).findLast(({ from, to }) => from !== to)
    return last?.to === 'abandoned' && Date.parse(last.at) + keptDays * dayMs <= now
  }
  const expired: DispatchId[] = []
  const projects = new Set<RepoId>()
  for (const { id, repoId, state } of records.list()) {
    if (state !== 'abandoned' || !isDue(id)) continue
    await using _lock = await locks.acquire(`capture-${id}`, { timeoutMs: 5_000 })
    // Somebody may have asked for it while we waited.
    if (records.find(id)?.state !== 'abandoned' || !isDue(id)) continue
    await rm(layout.changeset(repoId, id), { recursive: true, force: true })
    records.forget(id)
    expired.push(id)
    projects.add(repoId)
  }
  for (const project of projects) {
    // Two at once could each throw away the copy that the other one counts on.
    await using lock = await locks.tryAcquire(`collect-${project}`)
    // What is left over takes room and no more; the next one that expires tries again.
    if (lock !== null) await collectObjects(context, project, now).catch(() => {})
  }
  return expired
}
