import type { ListEntry } from './words.ts'

/** Deeper than this the list indents no further: there would be no room for the names. */
const deepest = 4

/** The lines beside a row that lead from parents to their children. */
export type Rails = {
  readonly depth: number
  /** Depths at which a line runs past this row, to somebody further down. */
  readonly past: readonly number[]
  /** Whether its own children follow. */
  readonly opens: boolean
}

const none: Rails = { depth: 0, past: [], opens: false }

/** Looked at from the end: a line runs past a row where a later one of the same family hangs on it. */
export function railsOf(entries: readonly ListEntry[]): readonly Rails[] {
  const rails: Rails[] = []
  let later: readonly number[] = []
  for (const entry of entries.toReversed()) {
    const depth = entry.kind === 'row' ? Math.min(entry.depth, deepest) : 0
    const past = later.filter((each) => each <= depth)
    rails.push(entry.kind === 'group' ? none : { depth, past, opens: later.includes(depth + 1) })
    later = depth === 0 ? [] : [...past.filter((each) => each < depth), depth]
  }
  return rails.reverse()
}
