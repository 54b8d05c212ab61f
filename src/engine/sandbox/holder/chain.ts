import type { ChildProcess } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import type { LimitName } from '../../base/sandbox.ts'
import { descriptor } from './holder.ts'
import { pathOf, startHolder, type Descriptors, type SpareHolder } from './holderProcess.ts'
import { keepTail, onLines } from '../lines.ts'
import { hasInherited } from '../host/inherited.ts'
import type { SandboxPlan } from '../plan/plan.ts'
import { childrenOf, gateBelow, readProcess } from '../narrow/processes.ts'
import type { RelayProgram } from './relayProgram.ts'

export { childrenOf, readProcess }

/** How the chain ended: by the agent's own end, or cut off (`code` null). */
export type ChainEnd = {
  readonly code: number | null
  readonly cpuMs: number
  /** The most memory its systemd scope had, where it was in one. */
  readonly peakMb: number
  /** Limits the holder saw run into. */
  readonly reached: readonly LimitName[]
  /** Which of our own processes somebody else ended. */
  readonly lost: string | null
  /** The agent's program is not there, or is none. */
  readonly unstartable: boolean
}

type Waiting = { readonly resolve: () => void; readonly reject: (error: Error) => void }

const timesLine = /^\d+m[\d.]+s \d+m[\d.]+s/

/**
 * Of `times` of a shell, told once or more: user and system time as 0m0.00s, its own and, on the second line, its
 * children's. Both only grow.
 */
export function lastTimes(lines: readonly string[]): number {
  const parts = lines.slice(-2).flatMap((line) => [...line.matchAll(/(\d+)m([\d.]+)s/g)])
  const ms = parts.map(([, minutes, seconds]) => Number(minutes) * 60_000 + Number(seconds) * 1000)
  return Math.round(ms.reduce((sum, one) => sum + one, 0))
}

/** The processes around one agent, from our child down to the gate, and the pipes between us and them. */
export class Chain {
  readonly pid: number
  readonly ended: Promise<ChainEnd>
  /** Who listens in its network already, where it stood before. */
  readonly relay: RelayProgram | null
  /** The gate stands inside: all mounts are made. */
  get here(): Promise<void> {
    return this.#here.promise
  }

  /** Before that, where writes are watched: the descriptor of who is to listen, -1 where the kernel has none. */
  get watch(): Promise<number> {
    return this.#watch.promise
  }

  /** What it found by trying, once it was told to. */
  get answers(): Promise<string> {
    return this.#answers.promise
  }

  readonly #child: ChildProcess
  readonly #readDiagnostics: () => string
  readonly #here = Promise.withResolvers<void>()
  readonly #watch = Promise.withResolvers<number>()
  readonly #answers = Promise.withResolvers<string>()
  readonly #orders = new Map<number, Waiting>()
  #lastOrder = 0
  #code: number | null = null
  readonly #times: string[] = []
  #peakMb = 0
  readonly #reached: LimitName[] = []
  #failure: string | null = null
  #lost: string | null = null
  #unstartable = false
  readonly #confinement: SandboxPlan['confinement']
  readonly #lastLook: () => Promise<void>

  /** `lastLook` is for what the agent left behind, which stands still until it is over. */
  constructor(
    plan: SandboxPlan,
    io: Descriptors,
    joinFiles: readonly string[],
    spare: SpareHolder | null,
    lastLook: () => Promise<void>,
  ) {
    this.#lastLook = lastLook
    this.#confinement = plan.confinement
    const terminal = plan.request.terminal ? pathOf(io.stdin) : null
    const taken = spare?.take(plan, terminal, joinFiles, hasInherited) ?? null
    const holder = taken?.holder ?? startHolder(plan, io)
    this.relay = taken?.relay ?? null
    this.#child = holder.child
    this.pid = this.#child.pid ?? -1
    this.#readDiagnostics = keepTail(this.#child.stdio[descriptor.diagnostics] as Readable)
    this.ended = this.#waitForEnd(holder.ended)
    onLines(this.#child.stdio[descriptor.status] as Readable, (line) => this.#onStatus(line))
    if (taken === null) holder.charge(plan, joinFiles, terminal, hasInherited)
    else if (taken.waits) void this.#attach()
  }

  /** Where bubblewrap was started before: what it lacks. Who waits inside is told by the holder, if it is there. */
  async #attach(): Promise<void> {
    try {
      await this.order('attach')
    } catch (error) {
      this.#failure ??= `cannot mount the workspace: ${error instanceof Error ? error.message : String(error)}`
      this.cut()
    }
  }

  get isAlive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** Why it did not come up, in one line. */
  get failure(): string {
    const said = this.diagnostics.split('\n').find((line) => !line.includes('dmesg(1)'))
    return [this.#failure, said].filter(Boolean).join(': ') || `ended with ${this.#code ?? 'no word'}`
  }

  /** The last of what our tools said of themselves. */
  get diagnostics(): string {
    return this.#readDiagnostics()
  }

  #writable(index: number): Writable {
    return this.#child.stdio[index] as Writable
  }

  #onStatus(line: string): void {
    const [word, id, ...rest] = line.split(' ')
    if (word === 'here') this.#here.resolve()
    else if (word === 'watch') this.#watch.resolve(Number(id))
    else if (word === 'answers') this.#answers.resolve(id ?? '')
    else if (this.#code !== null && timesLine.test(line)) this.#times.push(line)
    else if (word === 'over')
      void this.#lastLook().finally(() => this.#writable(descriptor.orders).write('go\n'))
    else if (word === 'limit' && Number(rest[0]) > 0) this.#reached.push(id === 'pids' ? 'pids' : 'memory')
    else if (word === 'peak') this.#peakMb = Number(id) / 1024 / 1024
    else if (word === 'end') this.#code = Number(id)
    else if (word === 'failed' && id === '0') this.#failure = rest.join(' ')
    else if (word === 'unstartable') this.#unstartable = true
    else if (word === 'lost') this.#lost = [id, ...rest].join(' ')
    else if (word === 'done') this.#orders.get(Number(id))?.resolve()
    else if (word === 'failed') this.#orders.get(Number(id))?.reject(new Error(rest.join(' ')))
  }

  async #waitForEnd(ended: Promise<string | null>): Promise<ChainEnd> {
    this.#failure = (await ended) ?? this.#failure
    for (const waiting of this.#orders.values()) waiting.reject(new Error('the sandbox has ended'))
    return {
      code: this.#code,
      cpuMs: lastTimes(this.#times),
      peakMb: this.#peakMb,
      reached: this.#reached,
      lost: this.#lost ?? this.#killed(),
      unstartable: this.#unstartable,
    }
  }

  #killed(): string | null {
    if (this.#code === null) return 'the process that holds it was killed'
    // The holder's shell tells of a child that a signal ended; bubblewrap reports the agent's by a code.
    if (this.#confinement === 'bubblewrap' && this.#code === 137 && /\bKilled\b/.test(this.diagnostics))
      return 'bubblewrap was killed'
    return null
  }

  /** Lets the gate take its next step, up to its answers. */
  step(): void {
    this.#writable(descriptor.gateIn).write('go\n')
  }

  /** Lets the gate become the agent, by what it is to read for that. */
  become(lines: readonly string[]): void {
    this.#writable(descriptor.gateIn).write(lines.map((line) => `${line}\n`).join(''))
  }

  /** Has the holder do something; rejects with what it said if it could not. */
  order(text: string): Promise<void> {
    const id = ++this.#lastOrder
    return new Promise<void>((resolve, reject) => {
      this.#orders.set(id, { resolve, reject })
      if (this.isAlive) this.#writable(descriptor.orders).write(`${id} ${text}\n`)
      else reject(new Error('the sandbox has ended'))
    }).finally(() => this.#orders.delete(id))
  }

  get holder(): number | null {
    return childrenOf(this.pid)[0] ?? null
  }

  /** The gate's process as the host numbers it: down the chain from our child. */
  gate(plan: SandboxPlan): number | null {
    const { holder } = this
    return holder === null ? null : gateBelow(holder, plan.confinement)
  }

  /** By force: the holder is the first process of its namespace, so the kernel ends everything in it. */
  cut(): void {
    const { holder } = this
    if (!this.isAlive) return
    if (holder !== null) {
      try {
        process.kill(holder, 'SIGKILL')
      } catch {
        // Gone meanwhile.
      }
    } else this.#child.kill('SIGKILL')
  }
}
