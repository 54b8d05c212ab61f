import type { ChildProcess } from 'node:child_process'
import { open } from 'node:fs/promises'
import type { HostAlias } from '../../base/sandbox.ts'
import type { SandboxPlan } from '../plan/plan.ts'
import { RelayProgram } from './relayProgram.ts'
import { hostsFile, hostsPath } from '../plan/view.ts'

/** The program that listens in the sandbox's network namespace and speaks to the broker outside. */
export class Relay {
  readonly #plan: SandboxPlan
  /** Listens already, but whoever comes to it waits for a broker. */
  #asleep: RelayProgram | null
  #program: RelayProgram | null = null
  /** As the sandbox is started with. */
  #names = hostsFile([])

  constructor(plan: SandboxPlan, asleep: RelayProgram | null = null) {
    this.#plan = plan
    this.#asleep = asleep
  }

  async start(
    holderPid: number,
    agentPid: number,
    broker: string,
    aliases: readonly HostAlias[],
    onStarted?: (relay: ChildProcess) => void,
    isLazy = false,
  ): Promise<readonly string[]> {
    await this.setNames(aliases)
    if (this.#program?.isAlive === true) return this.#program.setAliases(aliases)
    const asleep = this.#asleep
    this.#asleep = null
    if (asleep?.isAlive === true && onStarted !== undefined) {
      this.#program = asleep
      onStarted(asleep.child)
      await asleep.ready
      return !isLazy || aliases.length > 0 ? asleep.setAliases(aliases) : []
    }
    await asleep?.stop()
    const hasChannel = onStarted !== undefined
    this.#program = new RelayProgram(this.#plan, {
      holderPid,
      agentPid,
      broker,
      aliases,
      hasChannel,
      isLazy,
    })
    onStarted?.(this.#program.child)
    await this.#program.ready
    return []
  }

  /** From now on these names resolve inside, and no others. */
  async setNames(aliases: readonly HostAlias[]): Promise<void> {
    const text = hostsFile(aliases)
    if (text === this.#names) return
    await writeInPlace(hostsPath(this.#plan.request), text)
    this.#names = text
  }

  async stop(): Promise<void> {
    const programs = [this.#asleep, this.#program]
    this.#asleep = this.#program = null
    await Promise.all(programs.map((program) => program?.stop()))
  }
}

// A new file would not show inside, where this one is bound.
async function writeInPlace(path: string, text: string): Promise<void> {
  await using handle = await open(path, 'r+')
  const { bytesWritten } = await handle.write(text, 0)
  await handle.truncate(bytesWritten)
}
