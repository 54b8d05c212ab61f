import type { ChildProcess } from 'node:child_process'
import { closeSync, ftruncateSync, openSync, writeSync } from 'node:fs'
import type { HostAlias } from '../../base/sandbox.ts'
import type { SandboxPlan } from '../plan/plan.ts'
import { RelayProgram } from './relayProgram.ts'
import { hostsFile, hostsPath } from '../plan/view.ts'

type Name = Pick<HostAlias, 'host' | 'address'>

type Start = {
  readonly holderPid: number
  readonly agentPid: number
  readonly broker: string
  readonly aliases: readonly HostAlias[]
  readonly onStarted?: ((relay: ChildProcess) => void) | undefined
  readonly isLazy: boolean
}

/** The program that listens in the sandbox's network namespace and speaks to the broker outside. */
export class Relay {
  readonly #plan: SandboxPlan
  /** Listens already, but whoever comes to it waits for a broker. */
  #asleep: RelayProgram | null
  #program: RelayProgram | null = null
  /** As the sandbox is started with. */
  #names: readonly Name[] = []

  constructor(plan: SandboxPlan, asleep: RelayProgram | null = null) {
    this.#plan = plan
    this.#asleep = asleep
  }

  /**
   * A name is known only while somebody listens for it: one that goes does so before its listener, one that comes when that
   * stands. Who resolves it in between would be told that nobody is there, and give up.
   */
  async start(wanted: Start): Promise<readonly string[]> {
    const { aliases } = wanted
    const isKept = (name: Name) =>
      aliases.some(({ host, address }) => host === name.host && address === name.address)
    this.setNames(this.#names.filter(isKept))
    const unheard = await this.#listen(wanted)
    this.setNames(aliases)
    return unheard
  }

  async #listen(wanted: Start): Promise<readonly string[]> {
    const { holderPid, agentPid, broker, aliases, onStarted, isLazy } = wanted
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
  setNames(names: readonly Name[]): void {
    const text = hostsFile(names)
    if (text !== hostsFile(this.#names)) writeInPlace(hostsPath(this.#plan.request), text)
    this.#names = names
  }

  async stop(): Promise<void> {
    const programs = [this.#asleep, this.#program]
    this.#asleep = this.#program = null
    await Promise.all(programs.map((program) => program?.stop()))
  }
}

// A new file would not show inside, where this one is bound. At once: trips to the thread pool take ten times as long.
function writeInPlace(path: string, text: string): void {
  const file = openSync(path, 'r+')
  try {
    ftruncateSync(file, writeSync(file, text, 0))
  } finally {
    closeSync(file)
  }
}
