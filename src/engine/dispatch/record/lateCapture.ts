import type { DispatchId } from '../../../shared/ids.ts'
import { isTerminal } from '../../../shared/dispatch.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { loadWorkspace } from '../../workspace/index.ts'
import type { Parts } from '../parts.ts'

const sign = 'capture: '

/** The error of a run, with the reason why what it wrote is not in a changeset yet. */
export function notCaptured(error: string | null, reason: unknown): string {
  const why = reason instanceof Error ? reason.message : String(reason)
  const what = `${sign}${why}; what was written is kept, and \`orangery changeset show\` tries again`
  return error === null ? what : `${error}; ${what}`
}

/** Whether that is the error of a run whose work is not in a changeset yet. */
export const isNotCaptured = (error: string | null): boolean => error?.includes(sign) === true

/**
 * A disk that was full when the agent ended may have room by now, and records that were locked may be free: its
 * work is still where it wrote it. A changeset seen while it ran is still active then, and not all of it.
 */
export async function captureLate(parts: Parts, id: DispatchId): Promise<void> {
  const dispatch = parts.store.dispatches.find(id)
  if (dispatch === undefined || dispatch.repoId === null || !isTerminal(dispatch.status)) return
  if (!isNotCaptured(dispatch.error)) return
  const isUnfinished = dispatch.changeset?.id === id && dispatch.changeset.state === 'active'
  // Active again by a later turn it is that agent's, which is still at work.
  const isBetween = isUnfinished && parts.store.changesets.turns(id).length === 0
  if (dispatch.changeset !== null && !isBetween) return
  const workspace = await loadWorkspace(parts.layout, dispatch.repoId, id)
  await parts.changesets.capture(workspace, { final: true }).catch((error: unknown) => {
    if (error instanceof OrangeryError) throw error
    const why = error instanceof Error ? error.message : String(error)
    throw new OrangeryError('changeset.not_captured', `cannot capture what ${id} wrote: ${why}`, {
      kind: 'cannot_create',
      hint: `It is kept in ${workspace.dir}: mend the cause and ask again.`,
      cause: error,
    })
  })
}
