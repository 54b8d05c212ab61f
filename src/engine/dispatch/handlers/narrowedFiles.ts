import type { BoundaryGrant } from '../../../shared/escalation.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import { readEvents } from '../../store/index.ts'
import type { Parts } from '../parts.ts'

/**
 * Changes of a boundary as the event log has them: when each took effect, and what became of files that
 * were open, who was waited for or ended. The supervisor finds both out after the change is on record, where it stays
 * as it was decided.
 */
export async function withChoices(
  { layout, store }: Parts,
  id: DispatchId,
  history: readonly BoundaryGrant[],
): Promise<BoundaryGrant[]> {
  const { repoId } = store.dispatches.get(id)
  const told = new Map<BoundaryGrant, Pick<BoundaryGrant, 'at' | 'why'>>()
  if (repoId !== null && history.length > 0) {
    for await (const { at: when, event } of readEvents(layout.events(repoId, id), {
      after: 0,
      follow: false,
    })) {
      if (event.type !== 'BoundaryEscalated') continue
      const grant = history.findLast(
        ({ at, to, by, why }) =>
          at <= when && to === event.to && by === event.by && event.why.startsWith(why),
      )
      if (grant !== undefined) told.set(grant, { at: when, why: event.why })
    }
  }
  return history.map((grant) => ({ ...grant, ...told.get(grant) }))
}
