import { setImmediate as nextTurn } from 'node:timers/promises'

const sliceMs = 6

/**
 * Gives the event loop its turn after each few milliseconds of work. A walk makes thousands of calls of a few
 * microseconds each; handing every one to the thread pool would cost ten times the calls themselves.
 */
export class Pace {
  #since = performance.now()
  get isDue(): boolean {
    return performance.now() - this.#since >= sliceMs
  }
  async breathe(): Promise<void> {
    if (!this.isDue) return
    await nextTurn()
    this.#since = performance.now()
  }
}
