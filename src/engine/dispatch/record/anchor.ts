import type { DispatchId } from '../../../shared/ids.ts'
import type { EventLog, Store } from '../../store/index.ts'

const everyMs = 10_000

/**
 * Keeps in the row which event the log of a running dispatch has got to, beginning now. Whoever cuts lines off the
 * end of a log whose supervisor was killed is found out, but for those of the last seconds.
 */
export function anchorLog({ dispatches }: Store, id: DispatchId, log: EventLog): Disposable {
  let anchored: string | null = null
  const anchor = async () => {
    const { lastHash } = log
    if (lastHash === anchored) return
    await log.flush()
    dispatches.anchor(id, lastHash)
    anchored = lastHash
  }
  // A full disk or a busy database costs the anchor, never the run.
  const tryAnchor = () => void anchor().catch(() => {})
  tryAnchor()
  const timer = setInterval(tryAnchor, everyMs)
  timer.unref()
  return { [Symbol.dispose]: () => clearInterval(timer) }
}
