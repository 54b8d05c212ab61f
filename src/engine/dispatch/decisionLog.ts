import type { EventBody } from '../../shared/events.ts'

type Decision = {
  readonly host: string
  readonly port: number | null
  readonly allowed: boolean
  readonly why: string
}

const quietMs = 1000
const mostAtOnce = 200

/**
 * Every decision of the broker gets into the log, but a program that tries the same host a thousand times a
 * second gets one line a second that says how often: the log must not be a way to fill the disk.
 */
export class DecisionLog {
  readonly #note: (event: EventBody) => void
  readonly #counted = new Map<string, { readonly decision: Decision; count: number }>()
  #beyond = 0
  #timer: NodeJS.Timeout | undefined

  constructor(note: (event: EventBody) => void) {
    this.#note = note
  }

  add(decision: Decision): void {
    const key = JSON.stringify([decision.host, decision.port, decision.allowed, decision.why])
    const known = this.#counted.get(key)
    if (known !== undefined) known.count++
    else if (this.#counted.size >= mostAtOnce) this.#beyond++
    else {
      this.#counted.set(key, { decision, count: 0 })
      this.#write(decision, 1)
    }
    this.#timer ??= setTimeout(() => this.#flush(), quietMs).unref()
  }

  close(): void {
    this.#flush()
  }

  #flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    for (const { decision, count } of this.#counted.values()) if (count > 0) this.#write(decision, count)
    if (this.#beyond > 0) {
      this.#note({ type: 'Note', text: `${this.#beyond} more network decisions within a second` })
    }
    this.#counted.clear()
    this.#beyond = 0
  }

  #write({ host, port, allowed, why }: Decision, count: number): void {
    this.#note({ type: 'EgressDecided', host, port, allowed, why, ...(count === 1 ? {} : { count }) })
  }
}
