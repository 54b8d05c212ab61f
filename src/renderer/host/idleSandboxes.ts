import type { Output } from '../../shared/api.ts'

export type SandboxEntry = Output<'agent.list'>[number]

/** Sandboxes of worktrees that stand and in which nothing runs now; broken ones are among the orphans. */
export function idleSandboxes(entries: readonly SandboxEntry[]): readonly SandboxEntry[] {
  return entries.filter(
    ({ broken, running, meta }) =>
      !broken &&
      !running &&
      meta !== null &&
      meta.outcome === null &&
      meta.strategy === 'worktree' &&
      meta.continues === undefined,
  )
}
