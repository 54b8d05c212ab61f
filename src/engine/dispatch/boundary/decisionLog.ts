import type { EventBody } from '../../../shared/events.ts'

type Decision = {
  readonly host: string
  readonly port: number | null
  readonly allowed: boolean
  readonly why: string
}

const quietMs = 1000
const mostAtOnce = 200
/** Two programs may be refused the same within a second, and each is to read of it beside its own error. */
const mostAlike = 3

/**
 * Every decision of the broker gets into the log, but of a program that tries the same host a thousand times a
 * second all but the first few are one line a second that says how often: the log must not be a way to fill the disk.
 * Nor must a flood be a way to keep a host out of it that was let out: what is refused takes no room of that, and a new
 * host always has a line of its own, of which there are no more than the broker lets out. (escape: hidden-host)
 */
export class DecisionLog {
  readonly #note: (event: EventBody) => void
  readonly #counted = new Map<string, { readonly decision: Decision; told: number; count: number }>()
  readonly #letOut = new Set<string>()
  #lines = { allowed: 0, denied: 0 }
  #beyond = { allowed: 0, denied: 0 }
  #timer: NodeJS.Timeout | undefined

  constructor(note: (event: EventBody) => void) {
    this.#note = note
  }

  add(decision: Decision): void {
    const key = JSON.stringify([decision.host, decision.port, decision.allowed, decision.why])
    const known = this.#counted.get(key) ?? { decision, told: 0, count: 0 }
    const kind = decision.allowed ? 'allowed' : 'denied'
    const isNew = decision.allowed && !this.#letOut.has(decision.host)
    if (isNew) this.#letOut.add(decision.host)
    const isFull = !isNew && this.#lines[kind] >= mostAtOnce
    if (!isFull && known.told < (decision.allowed ? 1 : mostAlike)) {
      this.#counted.set(key, known)
      known.told++
      this.#lines[kind]++
      this.#write(decision, 1)
    } else if (known.told > 0) known.count++
    else this.#beyond[kind]++
    this.#timer ??= setTimeout(() => this.#flush(), quietMs).unref()
  }

  close(): void {
    this.#flush()
  }

  /** Writes what is counted so far: behind a change of the boundary it would read as decided after it. */
  writeCounted(): void {
    for (const known of this.#counted.values()) {
      if (known.count > 0) this.#write(known.decision, known.count)
      known.count = 0
    }
    const { allowed, denied } = this.#beyond
    const notes = [
      ...(allowed > 0 ? [`${allowed} more connections within a second to hosts named before`] : []),
      ...(denied > 0 ? [`${denied} more refusals within a second`] : []),
    ]
    for (const text of notes) this.#note({ type: 'Note', text })
    this.#beyond = { allowed: 0, denied: 0 }
  }

  #flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.writeCounted()
    this.#counted.clear()
    this.#lines = { allowed: 0, denied: 0 }
  }

  #write({ host, port, allowed, why }: Decision, count: number): void {
    this.#note({ type: 'EgressDecided', host, port, allowed, why, ...(count === 1 ? {} : { count }) })
  }
}
