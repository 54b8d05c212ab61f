import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RunningSandbox, SandboxRequest } from '../../src/engine/base/sandbox.ts'
import { terminalIo, type Sink } from '../../src/engine/dispatch/supervise/agentIo.ts'
import { planSandbox, SpareHolder, startSandbox, type HostFacts } from '../../src/engine/sandbox/index.ts'
import type { World } from './world.ts'

const patienceMs = 5000

/** A sandbox that stood before there was anything of the case, as most dispatches get one. */
export class Standing implements Disposable {
  /** Whether the case was made in it; else one was made for the case. */
  isUsed = false
  readonly #host: HostFacts
  readonly #spare: SpareHolder
  readonly #io = terminalIo({ columns: 80, rows: 24 })

  private constructor(host: HostFacts, dataDir: string) {
    this.#host = host
    this.#spare = new SpareHolder(host, dataDir)
  }

  static async make({ ground }: Pick<World, 'ground'>, host: HostFacts): Promise<Standing> {
    const standing = new Standing(host, ground.dataDir)
    const { sandbox } = standing.#io
    await standing.#spare.stage(host, ground.dataDir, join(ground.folder, 'stage'), sandbox)
    const end = performance.now() + patienceMs
    while (!standing.#spare.isStaged && performance.now() < end) await sleep(5)
    return standing
  }

  async start(
    request: SandboxRequest,
    record?: Sink,
  ): Promise<{ readonly sandbox: RunningSandbox; readonly drained: () => Promise<void> }> {
    const plan = planSandbox({ ...request, terminal: true }, this.#host)
    const spare = this.#spare
    const sandbox = await startSandbox(plan, this.#io.sandbox, { spare })
    this.isUsed = sandbox.pid === spare.pid
    // Mostly nobody reads what it prints, and it must not wait for that.
    this.#io.start(record ?? (() => {}))
    return { sandbox, drained: () => this.#io.drained() }
  }

  [Symbol.dispose](): void {
    this.#spare[Symbol.dispose]()
    this.#io[Symbol.dispose]()
  }
}
