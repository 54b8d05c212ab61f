import type { DispatchRow } from '../../shared/dispatch.ts'
import type { InvocationEntry } from '../../shared/invocation.ts'

/** Those that stand and that no dispatch has run in; broken ones are among the orphans. */
export function idleSandboxes(
  entries: readonly InvocationEntry[],
  rows: readonly Pick<DispatchRow, 'id'>[],
): readonly InvocationEntry[] {
  const ran = new Set<string>(rows.map((row) => row.id))
  return entries.filter(
    ({ id, broken, meta }) =>
      !ran.has(id) &&
      !broken &&
      meta !== null &&
      meta.outcome === null &&
      meta.strategy === 'worktree' &&
      meta.status === 'starting' &&
      meta.continues === undefined,
  )
}
