export type PlanLine = { readonly at: number; readonly what: string; readonly rest: string }

/** A plan's description, one fact a line: what kind of fact, and the fact. */
export function planLines(text: string): readonly PlanLine[] {
  return text
    .split('\n')
    .map((line, at) => {
      const cut = line.search(/\s/)
      return cut === -1
        ? { at, what: line, rest: '' }
        : { at, what: line.slice(0, cut), rest: line.slice(cut).trim() }
    })
    .filter(({ what }) => what !== '')
}
