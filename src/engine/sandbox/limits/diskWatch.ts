import { pause } from '../../base/pause.ts'
import type { DiskCount } from './disk.ts'

export type DiskWatched = {
  /** Bytes that are counted, and where they are more than that, any number above it. */
  readonly look: (most: number) => Promise<DiskCount>
  /** Bytes in use on the file systems that are written to, by whomever; `filled` with what files take by being there. */
  readonly used: () => Promise<{ readonly bytes: number; readonly filled: number }>
  /** Whether anybody inside has descriptors on their way in messages of sockets. */
  readonly hasParked: () => Promise<boolean>
  /** Keeps everything inside from running until it is let go. */
  readonly hold: () => Promise<AsyncDisposable>
  /** Of what is counted. */
  readonly limitBytes: number
  /** How much of it is for this run. */
  readonly ownBytes: number
}

const tickMs = 100
const shortestPauseMs = 200
const longestPauseMs = 5000
/** A look that takes longer is one at a standstill, where as much was written meanwhile as was left. */
const longestLookMs = 250
/** Programs pass descriptors to each other all the time, and they arrive at once. */
const unseenLooks = 3

/**
 * Looks again and again, more rarely the longer a look takes, until aborted or over the limit. Whenever the file system
 * filled by as much as is left, whoever did it, at once; and where the look then takes long, nothing inside runs until it is done:
 * an agent chooses how long a look takes, and must not be able to choose how much it writes meanwhile. (escape: disk-many-files)
 *
 * Files without a name whose descriptors are on their way nowhere are in no table that could be looked at. What they
 * take is missing on the file system, though: where more is missing than the limit, and descriptors are parked look after look,
 * it is likely theirs. (escape: disk-parked) The same goes for whatever else could not be counted: files of a process that closed
 * its table to us (escape: disk-undumpable), and folders that nobody could be started to list. (escape: disk-no-lister)
 */
export async function watchDisk(
  { look, used, hasParked, hold, limitBytes, ownBytes }: DiskWatched,
  signal: AbortSignal,
  onOver: (certainty: 'certain' | 'likely') => void,
): Promise<void> {
  let left = ownBytes
  let { filled: filledThen } = await used()
  const isFull = async () => (await used()).filled - filledThen > left
  /** What all others use, at the least that was seen. */
  let others = Number.POSITIVE_INFINITY
  let unseen = 0
  do {
    const begun = performance.now()
    const usedNow = await used()
    const { bytes, isWhole } = await lookInTime(
      () => look(limitBytes),
      async (sinceMs) => {
        return sinceMs > longestLookMs && (await isFull())
      },
      hold,
    )
    if (signal.aborted) return
    if (bytes > limitBytes) return onOver('certain')
    left = limitBytes - bytes
    filledThen = usedNow.filled
    others = Math.min(others, (await used()).bytes - bytes)
    const isMissing = usedNow.bytes - bytes - others > ownBytes
    unseen = isMissing && (!isWhole || (await hasParked())) ? unseen + 1 : 0
    if (unseen === unseenLooks) return onOver('likely')
    const rest = Math.min(longestPauseMs, Math.max(shortestPauseMs, 10 * (performance.now() - begun)))
    for (let waited = 0; waited < (unseen > 0 ? tickMs : rest); waited += tickMs) {
      if (!(await pause(tickMs, signal))) return
      if (await isFull()) break
    }
  } while (!signal.aborted)
}

/** A look, at a standstill from when it has to be. */
async function lookInTime(
  look: () => Promise<DiskCount>,
  mustHold: (sinceMs: number) => Promise<boolean>,
  hold: () => Promise<AsyncDisposable>,
): Promise<DiskCount> {
  await using held = new AsyncDisposableStack()
  const begun = performance.now()
  const done = new AbortController()
  const looking = look().finally(() => done.abort())
  let isHeld = false
  while (!isHeld && (await pause(tickMs, done.signal))) {
    isHeld = await mustHold(performance.now() - begun)
    if (isHeld) held.use(await hold())
  }
  return await looking
}
