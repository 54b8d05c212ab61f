import { boundaryRank } from '../../shared/boundary.ts'
import type { BoundaryGrant } from '../../shared/escalation.ts'
import type { DispatchId } from '../../shared/ids.ts'
import { readEvents } from '../store/index.ts'
import type { Parts } from './parts.ts'

/**
 * Changes of a boundary, with what became of files that were open: who was waited for, or ended. The supervisor finds that out
 * after the change is on record, where it stays as it was decided; the event log has both.
 */
export async function withChoices(
  { layout, store }: Parts,
  id: DispatchId,
  history: readonly BoundaryGrant[],
): Promise<BoundaryGrant[]> {
  const isDown = ({ from, to }: BoundaryGrant) => from !== null && boundaryRank(to) < boundaryRank(from)
  const { repoId } = store.dispatches.get(id)
  const told = new Map<BoundaryGrant, string>()
  if (repoId !== null && history.some(isDown)) {
    for await (const { at: when, event } of readEvents(layout.events(repoId, id), {
      after: 0,
      follow: false,
    })) {
      if (event.type !== 'BoundaryEscalated') continue
      const grant = history.findLast(
        ({ at, to, by, why }) =>
          at <= when && to === event.to && by === event.by && event.why.startsWith(why),
      )
      if (grant !== undefined && isDown(grant)) told.set(grant, event.why)
    }
  }
  return history.map((grant) => ({ ...grant, why: told.get(grant) ?? grant.why }))
}
