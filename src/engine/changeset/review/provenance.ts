import { shellLine } from '../../../shared/shellLine.ts'
import type { Provenance } from '../../../shared/changeset.ts'
import type { LoggedEvent } from '../../../shared/events.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import { toText, type BytePath } from '../bytePath.ts'

/** A call of the agent's, from its event to its result. */
export type Call = {
  readonly dispatch: DispatchId
  readonly seq: number
  readonly at: string
  readonly startMs: number
  readonly endMs: number
  readonly title: string
  /** Every text in its input, and its title. Null: the command itself, which lasts as long as its calls. */
  readonly texts: readonly string[] | null
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
        texts: [...textsIn(event.input), event.title],
      })
    } else if (event.type === 'DispatchStarting') {
      calls.push({
        dispatch,
        seq,
        at,
        startMs: Date.parse(at),
        endMs: Number.POSITIVE_INFINITY,
        title: shellLine(event.command),
        texts: null,
      })
    }
  }
  return calls
}

function textsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null) return []
  return Object.values(value).flatMap(textsIn)
}

/**
 * Which call wrote a path, by when it was written: the last one that was under way. Certain only if it is the
 * only one under way and was given just this path: a path among the words of a command may be one that it reads, in
 * another folder, or none at all. A command may always leave something running behind it.
 */
export function provenanceOf(
  calls: readonly Call[],
  { root, path }: { readonly root: string; readonly path: BytePath },
  writtenMs: number,
): Provenance | null {
  const underWay = calls.filter(
    (call) => call.startMs <= writtenMs + slackMs && call.endMs >= writtenMs - slackMs,
  )
  const own = toText(path)
  const names = new Set([own, `./${own}`, `${root}/${own}`])
  const given = underWay.filter(({ texts }) => texts?.some((text) => names.has(text)))
  const named = underWay.filter(({ texts }) => texts?.some((text) => mentions(text, own)))
  const call =
    given.at(-1) ?? named.at(-1) ?? underWay.at(-1) ?? calls.findLast((each) => each.startMs <= writtenMs)
  if (call === undefined) return null
  const others = underWay.filter((each) => each !== call && each.texts !== null)
  return {
    dispatch: call.dispatch,
    seq: call.seq,
    at: call.at,
    title: call.title,
    certain: given.includes(call) && others.length === 0,
  }
}

/** Whether a word of the text may mean this path: its end, as from a folder within, or its whole, as from one above. */
function mentions(text: string, path: string): boolean {
  return text
    .split(/[\s"'`=:;,|&<>()[\]{}]+/)
    .map((word) => word.replace(/^(\.\.?\/)+/, ''))
    .some((word) => word !== '' && (`/${path}`.endsWith(`/${word}`) || word.endsWith(`/${path}`)))
}
