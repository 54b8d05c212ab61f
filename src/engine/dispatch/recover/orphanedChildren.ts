import type { DispatchId } from '../../../shared/ids.ts'
import { killFamily } from '../supervise/kill.ts'
import type { Parts } from '../parts.ts'

/** Whoever ends a parent, by whatever way, ends what it started: nobody answers for a child any more. */
export async function endOrphanedChildren(parts: Parts): Promise<void> {
  const { dispatches } = parts.store
  const results = await Promise.allSettled(
    dispatches.unfinished().map(async ({ id, parent_id: parent }) => {
      if (parent === null) return
      const status = dispatches.find(parent as DispatchId)?.status
      if (status === 'cancelled' || status === 'interrupted')
        await killFamily(parts, id, `the end of its parent ${parent}`)
    }),
  )
  const failed = results.find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}
