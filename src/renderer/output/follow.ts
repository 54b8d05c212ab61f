import type { Client } from '../../shared/api.ts'
import { bytes } from '../text/time.ts'
import { OutputReader } from './reader.ts'

/** As much as the terminal's scrollback holds, and a little more. */
const shownBytes = 2 * 1024 * 1024
/** Whoever prints this much in that time is not read by anyone. */
const floodBytes = 6 * 1024 * 1024
const floodMs = 2_000

const leftOut = (count: number) => `\u001b[0m\r\n\u001b[2m… ${bytes(count)} left out …\u001b[0m\r\n`

/**
 * What a dispatch prints, as text for the terminal, from near its end on. A flood is followed at its end: showing
 * all of it would show the past, and nothing else in the window.
 */
export async function* followOutput(
  client: Pick<Client, 'open'>,
  id: string,
  signal: AbortSignal,
  now: () => number = Date.now,
): AsyncGenerator<string> {
  const reader = new OutputReader()
  let next = 0
  let flooded = true
  while (flooded && !signal.aborted) {
    flooded = false
    let since = now()
    let count = 0
    for await (const { offset, data } of client.open('dispatch.output', { id, from: -shownBytes }, signal)) {
      if (offset > next) yield leftOut(offset - next)
      const text = reader.read(offset, data)
      const length = Math.floor((data.length * 3) / 4)
      next = Math.max(next, offset + length)
      if (text !== '') yield text
      count += length
      if (now() - since > floodMs) {
        since = now()
        count = 0
      }
      if (count > floodBytes) {
        flooded = true
        break
      }
    }
  }
}
