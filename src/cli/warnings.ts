import type { SandboxLevel } from '../shared/level.ts'
import type { WorkspaceStrategy } from '../shared/spec.ts'
import { printError } from './failure.ts'

type Contract = {
  readonly level: SandboxLevel | null
  readonly strategy?: WorkspaceStrategy | undefined
}

/** What protects less than people expect of us is said out loud, each time. */
export function warnOf({ level, strategy }: Contract): void {
  if (level === 0) {
    printError(
      'level 0: not sandboxed, the command reaches all that you can reach',
      strategy === 'none' ? undefined : 'Only what it writes in its folders waits for review.',
    )
  }
  if (strategy === 'none') {
    printError(
      'changeset none: the command writes your real files, there will be nothing to review',
      undefined,
    )
  }
}
