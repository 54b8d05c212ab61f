import { basename } from 'node:path'
import type { Chain } from '../holder/chain.ts'
import { parseState } from './processes.ts'
import type { ProcessTree } from './tree.ts'

/** As the kernel prints it, and as `prlimit` takes it: a number or `unlimited`. */
function mostFiles(limits: string): string | null {
  return /^Max open files\s+(\S+)/m.exec(limits)?.[1] ?? null
}

/** Its own input and outputs anybody may go on to move about. */
const ownOnly = '3'

/** One that cannot put its output aside for a while loses it for good. */
const shells = new Set(['sh', 'dash', 'bash', 'zsh', 'ksh', 'mksh', 'fish', 'busybox'])

/**
 * Keeps processes from opening anything. What they have open they can go on with, and close: one that opens file after
 * file then has none at last, at whatever moment it is looked at. All stand still while this is begun and ended.
 */
export class Openings implements AsyncDisposable {
  readonly #chain: Chain
  readonly #tree: ProcessTree
  readonly #prlimit: string
  /** What each was allowed before. */
  readonly #held = new Map<number, string>()

  constructor(chain: Chain, tree: ProcessTree, prlimit: string) {
    this.#chain = chain
    this.#tree = tree
    this.#prlimit = prlimit
  }

  get areHeld(): boolean {
    return this.#held.size > 0
  }

  async hold(pids: readonly number[]): Promise<void> {
    for (const pid of pids) {
      const most = mostFiles(await this.#tree.read(pid, 'limits'))
      if (most === null || shells.has(basename(this.#tree.programOf(pid)))) continue
      this.#held.set(pid, most)
      await this.#set(ownOnly, [pid])
    }
  }

  /** Whoever was started meanwhile was born with what its parent was allowed. */
  async [Symbol.asyncDispose](): Promise<void> {
    const [first] = this.#held.values()
    if (first === undefined) return
    const byMost = new Map<string, number[]>()
    for (const pid of await this.#tree.list()) {
      const own = this.#held.get(pid)
      if (own === undefined && mostFiles(await this.#tree.read(pid, 'limits')) !== ownOnly) continue
      const { parent } = parseState(await this.#tree.read(pid, 'stat'))
      const most = own ?? this.#held.get(parent) ?? first
      byMost.set(most, [...(byMost.get(most) ?? []), pid])
    }
    for (const [most, pids] of byMost) await this.#set(most, pids)
  }

  // Where it has ended, or the tool fails, it is as if this had not been tried.
  async #set(most: string, pids: readonly number[]): Promise<void> {
    await this.#chain.order(`files ${this.#prlimit} ${most} ${pids.join(' ')}`).catch(() => {})
  }
}
