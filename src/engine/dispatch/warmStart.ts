import { SpareHolder } from '../sandbox/index.ts'
import { terminalIo, type AgentIo } from './agentIo.ts'
import type { Parts } from './parts.ts'
import { rehearse } from './rehearse.ts'
import type { Size } from './terminal.ts'

const usualSize: Size = { columns: 120, rows: 40 }

/** What a supervisor has ready before it knows its job: a terminal, a holder, and code that has run once. */
export class WarmStart implements AsyncDisposable {
  #io: AgentIo | null = null
  #spare: SpareHolder | null = null
  #isTaken = false
  readonly #preparing: Promise<void>

  constructor(opening: Promise<Parts>) {
    // What cannot be had beforehand is had later, or said then.
    this.#preparing = this.#prepare(opening).catch(() => {})
  }

  /** May take as long as it likes: who is in a hurry takes what there is. */
  async #prepare(opening: Promise<Parts>): Promise<void> {
    const parts = await opening
    const host = await parts.host()
    if (this.#isTaken) return
    // Before there is a terminal: its binding makes descriptors that every process started later inherits.
    if (host.userNamespaces.ok) this.#spare = new SpareHolder(host, parts.layout.dataDir)
    this.#io = terminalIo(usualSize)
    await rehearse(parts)
  }

  take(size: Size): { readonly io: AgentIo; readonly spare: SpareHolder | null } {
    this.#isTaken = true
    this.#io ??= terminalIo(size)
    this.#io.resize(size)
    return { io: this.#io, spare: this.#spare }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isTaken = true
    await this.#preparing
    this.#spare?.[Symbol.dispose]()
    this.#io?.[Symbol.dispose]()
  }
}
