import { join } from 'node:path'
import type { Door } from '../../door/index.ts'
import { SpareHolder } from '../../sandbox/index.ts'
import { spareDoor } from '../supervise/agentDoor.ts'
import { terminalIo, type AgentIo } from '../supervise/agentIo.ts'
import { readUserIdentity, type UserIdentity } from '../../workspace/index.ts'
import type { Parts } from '../parts.ts'
import { rehearse } from './rehearse.ts'
import { makeScratch, sparePlaces } from '../../base/ownedScratch.ts'
import type { Spares } from './spares.ts'
import type { Size } from '../supervise/terminal.ts'

const usualSize: Size = { columns: 120, rows: 40 }
const rounds = 2

/** What a supervisor has ready before it knows its job: a terminal, a holder, and code that has run once. */
export class WarmStart implements AsyncDisposable {
  #io: AgentIo | null = null
  #spare: SpareHolder | null = null
  #door: Door | null = null
  #identity: UserIdentity | null = null
  readonly #places = new AsyncDisposableStack()
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
    // Beside the workspaces, so that what is made here is only renamed later.
    const scratch = this.#places.use(await makeScratch(sparePlaces(parts.layout)))
    await this.#spare?.stage(host, parts.layout.dataDir, join(scratch.folder, 'stage'), this.#io.sandbox)
    this.#door = this.#places.use(await spareDoor(join(scratch.folder, 'door')))
    this.#identity = await readUserIdentity()
    // More than once: only what has run some times is quick.
    for (let round = 0; round < rounds && !this.#isTaken; round++) await rehearse(parts, usualSize)
    this.#spare?.rehearse()
    if (!this.#isTaken) await parts.watchHost()
  }

  take(size: Size): { readonly io: AgentIo } & Spares {
    this.#isTaken = true
    this.#io ??= terminalIo(size)
    this.#io.resize(size)
    return { io: this.#io, holder: this.#spare, door: this.#door, identity: this.#identity }
  }

  /** For an agent that is not spoken to on a terminal, and so needs another holder. */
  takeWithoutHolder(): Spares {
    this.#isTaken = true
    return { holder: null, door: this.#door, identity: this.#identity }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isTaken = true
    await this.#preparing
    this.#spare?.[Symbol.dispose]()
    await this.#places.disposeAsync()
    this.#io?.[Symbol.dispose]()
  }
}
