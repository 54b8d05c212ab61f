import type { BoundaryLevel } from '../../shared/boundary.ts'
import type { OutputMode } from '../../shared/spec.ts'
import type { RequestStatus } from '../../shared/escalation.ts'

/** What somebody inside asks for. */
export type Asked = {
  readonly to: BoundaryLevel
  readonly hosts: readonly string[]
  readonly reason: string
  readonly waitMs: number
}
export type Answered = {
  /** `expired`: nobody answered while it was open. `closed`: it was overtaken. `open`: it is still. */
  readonly status: 'approved' | 'denied' | 'expired' | 'closed' | 'open' | 'refused'
  readonly message: string
}

/** How an asker waits. */
export type Waiting = {
  /** Aborted when the asker no longer wants to know. What it asked stays with the person. */
  readonly signal: AbortSignal
  /** Called once a person is asked and the answer will take its time. */
  readonly began: () => void
}

/** What an agent may know of its own boundary. */
export type Shown = {
  readonly level: BoundaryLevel
  readonly files: 'read-only' | 'writable'
  /** Hosts that were granted while it runs. */
  readonly hosts: readonly string[]
  /** What it can reach now, by its contract and what was granted since; what is denied is denied whatever allows it. */
  readonly network: {
    readonly mode: OutputMode
    readonly allowed: readonly string[]
    readonly denied: readonly string[]
  }
  /** Hosts that were not reached: many programs show only a number, and here is what it was. */
  readonly refused: readonly { readonly host: string; readonly why: string }[]
  readonly requests: readonly {
    readonly to: BoundaryLevel
    readonly hosts: readonly string[]
    readonly status: RequestStatus
    readonly message: string
  }[]
}

/** Who hears what is said at the door. */
export type Listener = {
  readonly ask: (asked: Asked, waiting: Waiting) => Promise<Answered>
  readonly show: () => Shown
}
