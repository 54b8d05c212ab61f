import { isTerminal, type DispatchRow } from '../../shared/dispatch.ts'

const contains = (outer: string, inner: string) =>
  outer === inner || inner.startsWith(outer.endsWith('/') ? outer : `${outer}/`)

/** Dispatches that run on these folders: what lands while they look would be seen half done. */
export function inTheWay(rows: readonly DispatchRow[], roots: readonly string[]): readonly DispatchRow[] {
  return rows.filter(
    (row) =>
      !isTerminal(row.status) &&
      row.roots.some((root) => roots.some((other) => contains(root, other) || contains(other, root))),
  )
}
