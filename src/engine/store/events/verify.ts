import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import type { EventBody, EventProof, LoggedEvent } from '../../../shared/events.ts'
import { chainStart, openSealed, sealEvent } from './chain.ts'
import { LineReader } from './lines.ts'

/** How far a log is what its supervisor wrote. */
export type ProvenEvents = {
  /** How many from the beginning, and the hash of the last of them. */
  readonly events: number
  readonly lastHash: string
  /** What is wrong with the line after them; null where there is none. */
  readonly problem: string | null
  readonly isMissing: boolean
  /** Bytes after the last whole line: being written just now, or torn. */
  readonly unfinished: number
}

const cutShort = 'lines are missing from its end: the record names an event that is not there'

/** Reads the events of a log up to the first line that is not what was written; `visit` sees none beyond. */
export async function proveEvents(
  path: string,
  visit: (event: LoggedEvent) => void = () => {},
  {
    anchoredHash = null,
  }: { /** Of an event that must be among them. */ readonly anchoredHash?: string | null } = {},
): Promise<ProvenEvents> {
  let isAnchored = anchoredHash === null
  let events = 0
  let lastHash = chainStart
  const upToHere = (problem: string | null, unfinished = 0, isMissing = false): ProvenEvents => ({
    events,
    lastHash,
    problem,
    isMissing,
    unfinished,
  })
  let file
  try {
    // Whoever puts a pipe in its place does not make us wait for a writer.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return upToHere('the event log is missing', 0, true)
  }
  try {
    if (!(await file.stat()).isFile()) return upToHere('the event log is no file')
    const reader = new LineReader(file)
    for await (const line of reader.lines()) {
      const number = events + 1
      const event = openSealed(line)
      if (event === null) return upToHere(`line ${number} is not what was written`)
      if (event.seq !== number)
        return upToHere(`line ${number} carries number ${event.seq}: lines are missing or moved`)
      if (event.prev !== lastHash) return upToHere(`line ${number} does not follow the line before it`)
      events = number
      lastHash = event.hash
      isAnchored ||= event.hash === anchoredHash
      visit(event)
    }
    return upToHere(isAnchored ? null : cutShort, reader.unfinished)
  } finally {
    await file.close()
  }
}

/**
 * The hash of an end that is not written, because nothing is added to a damaged log. Anchored in the row it keeps
 * the log from ever proving whole, also when somebody cuts the damage off.
 */
export const hashOfUnwritten = ({ events, lastHash }: ProvenEvents, end: EventBody): string =>
  sealEvent(events + 1, new Date().toISOString(), lastHash, end).logged.hash

/**
 * Proves that a log is what its supervisor wrote: each line's own bytes, their order, none missing between.
 * Cutting lines off the end leaves a chain that is still whole: that is what the hash anchored in the
 * dispatch's row is for: of the last event once it `hasEnded`, of one of the last while it runs, null where there
 * is none yet. Where `hasBegun`, there must be a log.
 */
export async function verifyEvents(
  path: string,
  anchoredHash: string | null,
  { hasBegun = anchoredHash !== null, hasEnded = true }: { hasBegun?: boolean; hasEnded?: boolean } = {},
): Promise<EventProof> {
  const torn: NonNullable<EventProof['torn']> = []
  const { events, lastHash, problem, isMissing, unfinished } = await proveEvents(
    path,
    ({ event }) => {
      if (event.type === 'LogRepaired') torn.push({ bytes: event.bytes, moved_to: event.moved_to })
    },
    { anchoredHash: hasEnded ? null : anchoredHash },
  )
  const judged = (wrong: string | null): EventProof => ({
    ok: wrong === null,
    events,
    problem: wrong,
    ...(torn.length > 0 && { torn }),
  })
  if (isMissing && anchoredHash === null && !hasBegun) return judged(null)
  if (problem !== null) return judged(problem)
  // While it runs, the line being written just now is no damage.
  if (!hasEnded || anchoredHash === null) return judged(null)
  if (unfinished > 0) return judged(`line ${events + 1} is torn`)
  if (anchoredHash !== lastHash) {
    return judged('the log does not end with the event the record names as its last')
  }
  return judged(null)
}
