import type { DispatchId, RepoId } from '../../shared/ids.ts'
import type { RootMode, RootModes, WorkspaceStrategy } from '../../shared/spec.ts'

/**
 * What carries the agent's writes. `worktree` is an overlay of a sandbox worktree and of the common `.git`;
 * `direct` is the user's own files, with no changeset.
 */
export type WorkspaceDriver = 'kernel-overlay' | 'fuse-overlayfs' | 'reflink-copy' | 'plain-copy' | 'direct'

export type WorkspaceRoot = {
  /** Real path of the user's files: what a changeset compares with and lands in. */
  readonly path: string
  /** Where the agent sees it: the path the user named, which may lead through a symlink to `path`. */
  readonly target: string
  /** Folder name of this root in a changeset, unique among the roots. */
  readonly name: string
  /** `git` is the common `.git` of a worktree, beside the roots: never landed as files, nor written where there is no layer. */
  readonly role: 'project' | 'git'
  readonly access: RootMode
  readonly mount:
    | { readonly kind: 'overlay'; readonly lower: string; readonly upper: string; readonly work: string }
    | { readonly kind: 'bind'; readonly source: string }
}

export type Workspace = {
  readonly id: DispatchId
  readonly repoId: RepoId
  readonly strategy: WorkspaceStrategy
  readonly driver: WorkspaceDriver
  /** Our folder for it: `sandboxes/<id>`. */
  readonly dir: string
  readonly roots: readonly WorkspaceRoot[]
  /** Host clock when the workspace was made; a host file with a newer ctime has drifted. */
  readonly createdAtMs: number
  /** When its copies were complete, by the clock of their filesystem: what has an older ctime in them the agent has not touched. */
  readonly copiedAtMs?: number
}

/** What the agent may do with a root: in a worktree sandbox it was named by the integration tree's path. */
export const modeOf = (
  { target, path }: Pick<WorkspaceRoot, 'target' | 'path'>,
  modes: RootModes | undefined,
): RootMode => modes?.[target] ?? modes?.[path] ?? 'rw'

/**
 * What it may do with a git folder that lies beside the roots. With the real files a hook or a ref written there is another
 * checkout's, an integration worktree's for one, and nobody named that. (escape: shared-git-direct)
 */
export const besideRoots = (driver: WorkspaceDriver, mode: RootMode): RootMode =>
  driver === 'direct' && mode === 'rw' ? 'ro' : mode
