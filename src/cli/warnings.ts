import type { BoundaryLevel } from '../shared/boundary.ts'
import type { SandboxLevel } from '../shared/level.ts'
import type { WorkspaceStrategy } from '../shared/spec.ts'
import { printError } from './failure.ts'

type Contract = {
  readonly level: SandboxLevel | null
  readonly strategy?: WorkspaceStrategy | undefined
  readonly boundary?: BoundaryLevel | null | undefined
}

/** What protects less than people expect of us is said out loud, each time. */
export function warnOf({ level, strategy, boundary }: Contract): void {
  if (level === 0) {
    printError(
      'level 0: not sandboxed, the command reaches all that you can reach',
      strategy === 'none' ? undefined : 'Only what it writes in its folders waits for review.',
    )
  }
  if (strategy === 'none') {
    printError(
      boundary === 'readonly'
        ? 'changeset none: the command sees your real files and cannot write them, there will be nothing to review'
        : 'changeset none: the command writes your real files, there will be nothing to review',
      undefined,
    )
  }
}
