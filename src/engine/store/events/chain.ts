import { createHash } from 'node:crypto'
import type { EventBody, LoggedEvent } from '../../../shared/events.ts'

/** What the first event names as its predecessor. */
export const chainStart = '0'.repeat(64)

/**
 * A line is `{"seq":…,"at":…,"prev":…,"event":…,"hash":…}`. The hash is that of the line's own bytes up to
 * `,"hash":`, so proof needs no canonical form and holds for events of releases that come later.
 */
const hashAtEnd = /,"hash":"([0-9a-f]{64})"\}$/

const sha256 = (text: string): string => createHash('sha256').update(text, 'utf8').digest('hex')

export function sealEvent(
  seq: number,
  at: string,
  prev: string,
  event: EventBody,
): { readonly logged: LoggedEvent; readonly line: string } {
  const open = JSON.stringify({ seq, at, prev, event })
  const covered = open.slice(0, -1)
  const hash = sha256(covered)
  return { logged: { seq, at, prev, event, hash }, line: `${covered},"hash":"${hash}"}\n` }
}

/** The event of a line (without its newline), or null where the line is not what was written. */
export function openSealed(line: string): LoggedEvent | null {
  const seal = hashAtEnd.exec(line)
  if (seal === null || sha256(line.slice(0, seal.index)) !== seal[1]) return null
  try {
    return JSON.parse(line) as LoggedEvent
  } catch {
    return null
  }
}
