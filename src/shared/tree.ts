/** A row with its place among parents and children. */
export type Placed<Row> = { readonly row: Row; readonly depth: number }

/**
 * Puts children under their parents, otherwise in the order given. A row whose parent is not among the rows
 * stands at the top; every row comes out exactly once, whatever the parents say.
 */
export function asTree<Row extends { readonly id: string; readonly parent_id: string | null }>(
  rows: readonly Row[],
): Placed<Row>[] {
  const ids = new Set(rows.map((row) => row.id))
  const children = Map.groupBy(rows, (row) =>
    row.parent_id !== null && row.parent_id !== row.id && ids.has(row.parent_id) ? row.parent_id : null,
  )
  const placed: Placed<Row>[] = []
  const seen = new Set<Row>()
  const place = (first: readonly Row[]) => {
    const waiting = first.map((row) => ({ row, depth: 0 })).reverse()
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      if (seen.has(next.row)) continue
      seen.add(next.row)
      placed.push(next)
      const depth = next.depth + 1
      const below = children.get(next.row.id) ?? []
      waiting.push(...below.map((row) => ({ row, depth })).reverse())
    }
  }
  place(children.get(null) ?? [])
  // Only rows that are each other's parents are left: no program of ours makes them, a damaged record may.
  place(rows.filter((row) => !seen.has(row)))
  return placed
}
