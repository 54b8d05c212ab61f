import type { BoundaryRequest } from '../../../shared/escalation.ts'
import type { EventBody } from '../../../shared/events.ts'

const everyMs = 10_000

/** Puts on record, once each, which requests of a running agent nobody answered in time. */
export class LapsedRequests implements Disposable {
  readonly #requests: () => readonly BoundaryRequest[]
  readonly #note: (event: EventBody) => void
  readonly #told = new Set<string>()
  readonly #timer = setInterval(() => this.look(), everyMs).unref()

  constructor(requests: () => readonly BoundaryRequest[], note: (event: EventBody) => void) {
    this.#requests = requests
    this.#note = note
  }

  look(): void {
    for (const { id, status } of this.#read()) {
      if (status !== 'expired' || this.#told.has(id)) continue
      this.#told.add(id)
      this.#note({ type: 'BoundaryDenied', request: id, by: 'nobody', why: 'nobody answered in time' })
    }
  }

  /** Records that cannot be read now are looked at the next time. */
  #read(): readonly BoundaryRequest[] {
    try {
      return this.#requests()
    } catch {
      return []
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    // Who was told so may end at once.
    this.look()
  }
}
