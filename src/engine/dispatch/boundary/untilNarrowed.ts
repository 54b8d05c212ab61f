/** Each try stops the agent for a moment: soon at first, then seldom. */
const firstPauseMs = 5_000
const longestPauseMs = 60_000

/** Tries again what could not be done because somebody was writing, until it can be or need not be done any more. */
export class UntilNarrowed implements Disposable {
  readonly #attempt: () => Promise<boolean>
  #timer: NodeJS.Timeout | undefined

  /** `attempt` says whether it is over. */
  constructor(attempt: () => Promise<boolean>) {
    this.#attempt = attempt
  }

  begin(pauseMs = firstPauseMs): void {
    this[Symbol.dispose]()
    const timer = setTimeout(async () => {
      const isOver = await this.#attempt().catch(() => false)
      // Whoever began anew meanwhile has a timer of his own.
      if (!isOver && this.#timer === timer) this.begin(Math.min(2 * pauseMs, longestPauseMs))
    }, pauseMs)
    timer.unref()
    this.#timer = timer
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
