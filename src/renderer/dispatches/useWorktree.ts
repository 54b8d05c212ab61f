import type { DispatchRow } from '../../shared/dispatch.ts'
import type { AgentCommit } from '../../shared/invocation.ts'
import { useAnswer } from '../client/queries.ts'

export type WorktreePlace = {
  readonly name: string
  readonly repo: string
  readonly branch: string
  readonly tree: string
}

/** The integration worktree a dispatch works from, if it does, and the commits its agent made. */
export function useWorktree(row: DispatchRow): {
  readonly worktree: WorktreePlace | null
  readonly commits: readonly AgentCommit[]
  /** Its first folder is in a repository. */
  readonly inGit: boolean
} {
  const ran = row.status !== 'preflight_failed'
  const invocation = useAnswer('agent.get', { id: row.changeset?.id ?? row.id }, { enabled: ran })
  const from = invocation.data?.meta?.integration_worktree_id ?? null
  const entry = useAnswer('worktree.get', { id: from ?? '' }, { enabled: from !== null })
  const meta = entry.data?.meta ?? null
  return {
    worktree:
      meta === null
        ? null
        : { name: meta.name, repo: meta.repo_path, branch: meta.branch, tree: meta.tree_path },
    commits: invocation.data?.commits ?? [],
    inGit: (invocation.data?.meta?.common_dir ?? null) !== null,
  }
}
