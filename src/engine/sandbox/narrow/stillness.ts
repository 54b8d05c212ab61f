import type { Chain } from '../holder/chain.ts'
import type { ProcessTree, Survey } from './tree.ts'

/** Nothing inside runs for as long as it is held. */
export type Held = AsyncDisposable & {
  /** Stops whatever runs again, or is new, that many times over, and tells who is there now. */
  again(times?: number): Promise<Survey>
}

/**
 * Stops the agent and all it started in one call of the kernel's (`kill -1`), which no fork comes between: a process
 * that goes on in a child of its own, for ever, is stopped like any other. (escape: narrow-hopping-writer) What runs for
 * us is let go on at once.
 */
export class Stillness {
  readonly #chain: Chain
  readonly #tree: ProcessTree
  #holders = 0

  constructor(chain: Chain, tree: ProcessTree) {
    this.#chain = chain
    this.#tree = tree
  }

  async hold(): Promise<Held> {
    this.#holders++
    try {
      await this.#stop()
    } catch (error) {
      await this.#release()
      throw error
    }
    return { again: (times) => this.#stop(times), [Symbol.asyncDispose]: () => this.#release() }
  }

  async #stop(times = 1): Promise<Survey> {
    await this.#chain.order(`still ${times} ${this.#tree.elders().join(' ')}`)
    const survey = await this.#tree.survey()
    const late = survey.ours.filter((pid) => pid >= this.#tree.agent)
    if (late.length > 0) await this.#chain.order(`tell CONT ${late.join(' ')}`)
    return survey
  }

  async #release(): Promise<void> {
    this.#holders--
    // Whoever else holds it lets it go.
    if (this.#holders === 0) await this.#chain.order('go').catch(() => {})
  }
}
