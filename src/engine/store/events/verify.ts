import { open } from 'node:fs/promises'
import type { EventProof } from '../../../shared/events.ts'
import { chainStart, openSealed } from './chain.ts'
import { LineReader } from './lines.ts'

/**
 * Proves that a log is what its supervisor wrote: each line's own bytes, their order, none missing between.
 * Cutting lines off the end leaves a chain that is still whole: that is what the hash anchored in the
 * dispatch's row is for (null while it runs).
 */
export async function verifyEvents(path: string, anchoredHash: string | null): Promise<EventProof> {
  let events = 0
  let lastHash = chainStart
  const wrong = (problem: string): EventProof => ({ ok: false, events, problem })
  let file
  try {
    file = await open(path, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return anchoredHash === null ? { ok: true, events: 0, problem: null } : wrong('the event log is missing')
  }
  try {
    const reader = new LineReader(file)
    for await (const line of reader.lines()) {
      const number = events + 1
      const event = openSealed(line)
      if (event === null) return wrong(`line ${number} is not what was written`)
      if (event.seq !== number)
        return wrong(`line ${number} carries number ${event.seq}: lines are missing or moved`)
      if (event.prev !== lastHash) return wrong(`line ${number} does not follow the line before it`)
      events = number
      lastHash = event.hash
    }
    // While it runs, the line being written just now is no damage.
    if (anchoredHash !== null && reader.unfinished > 0) return wrong(`line ${events + 1} is torn`)
  } finally {
    await file.close()
  }
  if (anchoredHash !== null && anchoredHash !== lastHash) {
    return wrong('the log does not end with the event the record names as its last')
  }
  return { ok: true, events, problem: null }
}
