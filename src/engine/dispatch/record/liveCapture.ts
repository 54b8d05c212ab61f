import { setTimeout as sleep } from 'node:timers/promises'
import type { EventBody } from '../../../shared/events.ts'
import type { Workspace } from '../../base/workspace.ts'
import type { Parts } from '../parts.ts'

/**
 * Pause between two looks, and how much longer than a look took it must be: an agent pays little for being
 * watched, and what it writes is seen within a second unless it writes a great deal.
 */
const shortestPauseMs = 400
const pausePerLook = 2
/** Where nothing changes the looks become rarer, up to what still shows a change within a second, its look included. */
const idlePauseMs = 700
const slowing = 1.2

/** The longest that a change waits to be looked at, where a look takes this long. */
export function longestPauseMs(lookMs: number): number {
  return Math.max(idlePauseMs, lookMs * pausePerLook)
}

/** Captures the changeset while the agent runs, so that it can be read before the agent is done. */
export function followChanges(
  parts: Parts,
  workspace: Workspace,
  note: (event: EventBody) => void,
): AsyncDisposable {
  const stop = new AbortController()
  const following = (async () => {
    let revision = ''
    let pause = shortestPauseMs
    while (workspace.strategy !== 'none') {
      await sleep(pause, undefined, { signal: stop.signal }).catch(() => {})
      if (stop.signal.aborted) return
      const began = performance.now()
      const capture = await parts.changesets
        .capture(workspace, { final: false, signal: stop.signal })
        .catch(() => null)
      const isNew = capture !== null && capture.revision !== revision
      if (isNew) {
        revision = capture.revision
        note({ type: 'ChangesetCaptured', revision, files: capture.files })
      }
      const restful = isNew ? shortestPauseMs : Math.min(pause * slowing, idlePauseMs)
      pause = Math.max(restful, (performance.now() - began) * pausePerLook)
    }
  })()
  return {
    async [Symbol.asyncDispose]() {
      stop.abort()
      await following
    },
  }
}
