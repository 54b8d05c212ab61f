import { appendFile } from 'node:fs/promises'
import type { Layout } from '../../base/paths.ts'

/** Hears of a clean-up step that failed; the original error goes on all the same. */
export type CleanupReport = (what: string, error: unknown) => Promise<void> | void

/** Cleanup failures go to the log of the data folder, one JSON object a line. */
export function reportToLog(layout: Pick<Layout, 'log'>): CleanupReport {
  return async (what, error) => {
    const message = error instanceof Error ? error.message : String(error)
    const line = {
      level: 40,
      time: Date.now(),
      name: 'workspace',
      msg: `clean-up of ${what} failed`,
      why: message,
    }
    await appendFile(layout.log, `${JSON.stringify(line)}\n`, { mode: 0o600 }).catch(() => {})
  }
}

/**
 * Steps that take back what was made, run in reverse unless the commit point is reached. A step that fails is
 * reported and the others still run; the error that led here is never replaced.
 */
export class Rollback implements AsyncDisposable {
  readonly #steps: { what: string; undo: () => Promise<unknown> }[] = []
  readonly #report: CleanupReport
  #committed = false

  constructor(report: CleanupReport) {
    this.#report = report
  }

  add(what: string, undo: () => Promise<unknown>): void {
    this.#steps.push({ what, undo })
  }

  commit(): void {
    this.#committed = true
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#committed) return
    for (const { what, undo } of this.#steps.reverse()) {
      try {
        await undo()
      } catch (error) {
        await this.#report(what, error)
      }
    }
  }
}
