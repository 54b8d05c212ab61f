export type DifferenceLine = {
  readonly key: string
  readonly kind: 'same' | 'added' | 'removed'
  readonly text: string
}

const mostCompared = 1_000_000
const signs = { same: '=', added: '+', removed: '-' } as const
const line = (kind: DifferenceLine['kind'], at: number, text: string): DifferenceLine => ({
  key: `${signs[kind]}${at}`,
  kind,
  text,
})

/** Lines of a small file beside each other: what stayed, went and came, by their longest common run. */
export function lineDifference(before: string, now: string): readonly DifferenceLine[] {
  const split = (text: string) => (text === '' ? [] : text.replace(/\n$/, '').split('\n'))
  const [old, next] = [split(before), split(now)]
  // The file is the repository's: one written to be long must not stop the window.
  if (old.length * next.length > mostCompared) {
    return [
      ...old.map((text, at) => line('removed', at, text)),
      ...next.map((text, at) => line('added', at, text)),
    ]
  }
  // Lengths of the common subsequence of what is left from each pair of lines on.
  const lengths = Array.from({ length: old.length + 1 }, () => new Uint32Array(next.length + 1))
  for (let o = old.length - 1; o >= 0; o--) {
    for (let n = next.length - 1; n >= 0; n--) {
      const row = lengths[o] as Uint32Array
      const below = lengths[o + 1] as Uint32Array
      row[n] = old[o] === next[n] ? (below[n + 1] ?? 0) + 1 : Math.max(below[n] ?? 0, row[n + 1] ?? 0)
    }
  }
  const lines: DifferenceLine[] = []
  let [o, n] = [0, 0]
  while (o < old.length || n < next.length) {
    const removedFirst = (lengths[o + 1]?.[n] ?? 0) >= (lengths[o]?.[n + 1] ?? 0)
    if (o < old.length && n < next.length && old[o] === next[n]) {
      lines.push(line('same', o, old[o] ?? ''))
      o++
      n++
    } else if (o < old.length && (n === next.length || removedFirst)) {
      lines.push(line('removed', o, old[o] ?? ''))
      o++
    } else {
      lines.push(line('added', n, next[n] ?? ''))
      n++
    }
  }
  return lines
}
