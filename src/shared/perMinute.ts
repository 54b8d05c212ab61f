const minuteMs = 60_000

/** Lets so many through within any minute, and no more: asking must not be a way to keep us busy. */
export class PerMinute {
  readonly #most: number
  readonly #taken: number[] = []

  constructor(most: number) {
    this.#most = most
  }

  take(now: number = performance.now()): boolean {
    while (this.#taken.length > 0 && now - (this.#taken[0] as number) > minuteMs) this.#taken.shift()
    if (this.#taken.length >= this.#most) return false
    this.#taken.push(now)
    return true
  }
}
