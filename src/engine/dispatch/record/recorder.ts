import type { EventBody } from '../../../shared/events.ts'
import type { Guards } from '../../policy/index.ts'
import type { EventLog } from '../../store/index.ts'
import type { Observations } from './effective.ts'

export type Note = (event: EventBody) => void

/** What an agent says of itself is logged up to this many events: the log must not be a way to fill the disk. */
const mostSaid = 20_000

/** Every event goes to the log, to what is remembered of the run and, once the agent runs, to its guards. */
export class Recorder {
  readonly #seen: Observations
  /** What came before the log was open. */
  #early: EventBody[] = []
  #log: EventLog | undefined
  #guards: Guards | undefined
  #said = 0

  readonly #onEvent: Note | undefined

  constructor(seen: Observations, onEvent?: Note) {
    this.#seen = seen
    this.#onEvent = onEvent
  }

  /** From here on events are on disk; those that came before are the first of them. */
  open(log: EventLog): void {
    this.#log = log
    for (const event of this.#early) log.append(event)
    this.#early = []
  }

  get log(): EventLog | null {
    return this.#log ?? null
  }

  watch(guards: Guards): void {
    this.#guards = guards
  }

  readonly note: Note = (event) => {
    if (this.#log === undefined) this.#early.push(event)
    // One time for one event: what is remembered of it happened when the log says.
    this.#remember(event, this.#log?.append(event).at)
    this.#onEvent?.(event)
  }

  /** An event the agent's protocol told of. Counted and guarded also where it is no longer logged. */
  readonly said: Note = (event) => {
    this.#said++
    if (this.#said <= mostSaid) return this.note(event)
    if (this.#said === mostSaid + 1)
      this.note({ type: 'Note', text: 'further events of the agent are not logged' })
    this.#remember(event)
  }

  #remember(event: EventBody, at?: string): void {
    this.#seen.observe(event, at)
    this.#guards?.observe(event)
  }
}
