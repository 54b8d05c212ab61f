import { OrangeryError } from '../../shared/errors.ts'
import type { WorkspaceStrategy } from '../../shared/spec.ts'
import type { WorkspaceDriver } from '../base/workspace.ts'
import type { Project } from './find/project.ts'

/** What this host can carry a workspace with, as the sandbox station found by trying. */
export type WorkspaceFacts = {
  readonly kernelOverlay: boolean
  readonly fuseOverlayfs: boolean
  /** Roots and data folder share a filesystem that clones files without copying them. */
  readonly reflink: boolean
}

/**
 * What will carry the agent's writes: kernel overlay, else fuse-overlayfs, else a copy-on-write copy, else a
 * plain copy. Chosen before anything starts, shown (`describeDriver`) and recorded in `meta.json`.
 */
export function chooseDriver(
  project: Project,
  strategy: WorkspaceStrategy,
  facts: WorkspaceFacts,
): WorkspaceDriver {
  if (strategy === 'none') return 'direct'
  if (strategy === 'worktree' && project.commonDir === null) {
    throw new OrangeryError('workspace.not_git', `${project.roots[0].target}: not in a git repository`, {
      kind: 'input',
      hint: 'Use the overlay strategy, which needs no git.',
    })
  }
  const copy = facts.reflink ? 'reflink-copy' : 'plain-copy'
  if (strategy === 'clone') return copy
  if (facts.kernelOverlay) return 'kernel-overlay'
  if (facts.fuseOverlayfs) return 'fuse-overlayfs'
  if (strategy === 'worktree') {
    throw new OrangeryError(
      'workspace.no_overlay',
      'worktree: this host allows no overlay, and without one the sandbox would write your repository',
      { kind: 'preflight', hint: 'Use the clone strategy.' },
    )
  }
  return copy
}

/** The choice as a sentence for preflight, the event log and the window. */
export function describeDriver(driver: WorkspaceDriver, strategy: WorkspaceStrategy): string {
  const instead = strategy === 'overlay' ? ', because this host allows no overlay' : ''
  switch (driver) {
    case 'kernel-overlay':
      return 'kernel overlay: costs only what the agent writes'
    case 'fuse-overlayfs':
      return 'fuse-overlayfs, because the kernel overlay is not available: costs only what the agent writes, reads are slower'
    case 'reflink-copy':
      return `copy-on-write clone of the folders${instead}: takes time for every file, disk only for what changes`
    case 'plain-copy':
      return `full copy of the folders${strategy === 'clone' ? ', because files cannot be cloned here' : instead}: takes time and disk for every file`
    case 'direct':
      return 'the real files: everything the agent writes is final, there is no changeset'
  }
}

/** The same as a note, where it is not what was asked for but the next step down: that is never silent. */
export function lowerRung(driver: WorkspaceDriver, strategy: WorkspaceStrategy): readonly string[] {
  if (driver === 'kernel-overlay' || strategy === 'none') return []
  if (strategy === 'clone' && driver === 'reflink-copy') return []
  return [`workspace by ${describeDriver(driver, strategy)}`]
}
