import { setTimeout as sleep } from 'node:timers/promises'

/** Node's timers hold no more; a longer one fires at once. */
const longestTimerMs = 2 ** 31 - 1

/** Waits however long, without keeping the process; false where the signal ended the wait. */
export async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  let left = ms
  try {
    for (; left > longestTimerMs; left -= longestTimerMs) {
      await sleep(longestTimerMs, undefined, { signal, ref: false })
    }
    return await sleep(left, true, { signal, ref: false })
  } catch {
    return false
  }
}
