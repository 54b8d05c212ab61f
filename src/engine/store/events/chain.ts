import { createHash } from 'node:crypto'
import type { EventBody, LoggedEvent } from '../../../shared/events.ts'

/** What the first event names as its predecessor. */
export const chainStart = '0'.repeat(64)

/**
 * A line is `{"seq":…,"at":…,"prev":…,"event":…,"hash":…}`. The hash is that of the line's own bytes up to
 * `,"hash":`, so proof needs no canonical form and holds for events of releases that come later.
 */
const seal = /^,"hash":"([0-9a-f]{64})"\}$/
const sealLength = ',"hash":""}'.length + 64

const sha256 = (bytes: string | Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

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
export function openSealed(line: Buffer): LoggedEvent | null {
  const covered = line.subarray(0, Math.max(0, line.length - sealLength))
  const hash = seal.exec(line.subarray(covered.length).toString('latin1'))?.[1]
  if (hash === undefined || sha256(covered) !== hash) return null
  try {
    return JSON.parse(line.toString('utf8')) as LoggedEvent
  } catch {
    return null
  }
}
