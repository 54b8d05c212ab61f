import { shellLine } from '../../shared/shellLine.ts'
import type { Provenance } from '../../shared/changeset.ts'
import type { LoggedEvent } from '../../shared/events.ts'
import type { DispatchId } from '../../shared/ids.ts'
import { nameOf, toText, type BytePath } from './bytePath.ts'

/** A call of the agent's, from its event to its result. */
export type Call = {
  readonly dispatch: DispatchId
  readonly seq: number
  readonly at: string
  readonly startMs: number
  readonly endMs: number
  readonly title: string
  readonly input: string
}
/** File times and event times come from different clocks of one machine. */
const slackMs = 200

/** The calls of a log, in order. A call without a result lasts until the next one. */
export function callsOf(events: readonly LoggedEvent[], dispatch: DispatchId): readonly Call[] {
  const ends = new Map<string, number>()
  for (const { event, at } of events) if (event.type === 'ToolResult') ends.set(event.id, Date.parse(at))
  const calls: Call[] = []
  for (const { event, at, seq } of events) {
    if (event.type === 'ToolCall') {
      calls.push({
        dispatch,
        seq,
        at,
        startMs: Date.parse(at),
        endMs: ends.get(event.id) ?? Number.POSITIVE_INFINITY,
        title: event.title || event.tool,
        input: JSON.stringify(event.input ?? null) + event.title,
      })
    } else if (event.type === 'DispatchStarting') {
      calls.push({
        dispatch,
        seq,
        at,
        startMs: Date.parse(at),
        endMs: Number.POSITIVE_INFINITY,
        title: shellLine(event.command),
        input: '',
      })
    }
  }
  return calls
}

/**
 * Which call wrote a path, by when it was written: the last one that was under way. Certain only if it is the
 * only one under way and names the file; a command may always leave something running behind it.
 */
export function provenanceOf(calls: readonly Call[], path: BytePath, writtenMs: number): Provenance | null {
  const underWay = calls.filter(
    (call) => call.startMs <= writtenMs + slackMs && call.endMs >= writtenMs - slackMs,
  )
  const named = underWay.filter((call) => call.input.includes(toText(nameOf(path) as BytePath)))
  const call = named.at(-1) ?? underWay.at(-1) ?? calls.findLast((each) => each.startMs <= writtenMs)
  if (call === undefined) return null
  const others = underWay.filter((each) => each !== call && each.input !== '')
  return {
    dispatch: call.dispatch,
    seq: call.seq,
    at: call.at,
    title: call.title,
    certain: named.includes(call) && others.length === 0,
  }
}
