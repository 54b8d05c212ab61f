import { spawn, type ChildProcess } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import type { Readable, Writable } from 'node:stream'
import { systemdEnvironment } from './cgroups.ts'
import { bubblewrapOptions, descriptor, givenContents, holderCommand } from './holder.ts'
import { keepTail, onLines } from './lines.ts'
import type { SandboxPlan } from './plan.ts'
import { buildFilter } from './seccomp/filter.ts'

export type Descriptors = { readonly stdin: number; readonly stdout: number; readonly stderr: number }

/** How the chain ended: by the agent's own end, or cut off (`code` null). */
export type ChainEnd = { readonly code: number | null; readonly cpuMs: number }

type Waiting = { readonly resolve: () => void; readonly reject: (error: Error) => void }

/** `times` of a shell: user and system time as 0m0.00s, its own and, on the second line, its children's. */
export function parseTimes(line: string): number {
  const parts = [...line.matchAll(/(\d+)m([\d.]+)s/g)]
  return parts.reduce(
    (sum, [, minutes, seconds]) => sum + Number(minutes) * 60_000 + Number(seconds) * 1000,
    0,
  )
}

export async function childrenOf(pid: number): Promise<readonly number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
  return text.split(' ').filter(Boolean).map(Number)
}

function stdioOf(plan: SandboxPlan, io: Descriptors): ('pipe' | number)[] {
  const stdio: ('pipe' | number)[] = Array.from({ length: descriptor.given }, () => 'pipe')
  stdio[descriptor.agentIn] = io.stdin
  stdio[descriptor.agentOut] = io.stdout
  stdio[descriptor.agentErr] = io.stderr
  for (const index of givenContents(plan).keys()) stdio[descriptor.given + index] = 'pipe'
  return stdio
}

function environmentOf(plan: SandboxPlan): NodeJS.ProcessEnv {
  if (plan.inheritsEnvironment) return { ...process.env, ...plan.environment }
  // Empty: the first process inside shows its starter's environment in /proc, whatever is cleared later.
  return plan.limits.scope === null ? {} : systemdEnvironment()
}

/** The processes around one agent, from our child down to the gate, and the pipes between us and them. */
export class Chain {
  readonly pid: number
  readonly ended: Promise<ChainEnd>
  /** The gate stands inside: all mounts are made. */
  readonly here: Promise<void>
  readonly answers: Promise<string>
  readonly diagnostics: () => string

  readonly #child: ChildProcess
  readonly #orders = new Map<number, Waiting>()
  #lastOrder = 0
  #code: number | null = null
  #cpuMs = 0
  #failure: string | null = null

  constructor(plan: SandboxPlan, io: Descriptors, joinFiles: readonly string[]) {
    const [file = 'setpriv', ...args] = holderCommand(plan, joinFiles)
    this.#child = spawn(file, args, {
      stdio: stdioOf(plan, io),
      env: environmentOf(plan),
      cwd: '/',
      // A session of its own: Ctrl-C in the user's terminal is ours to pass on, not the holder's to die of.
      detached: true,
    })
    this.pid = this.#child.pid ?? -1
    this.ended = this.#waitForEnd()
    this.diagnostics = keepTail(this.#readable(descriptor.diagnostics))
    onLines(this.#readable(descriptor.status), (line) => this.#onStatus(line))
    const here = Promise.withResolvers<void>()
    const answers = Promise.withResolvers<string>()
    this.here = here.promise
    this.answers = answers.promise
    onLines(this.#readable(descriptor.gateOut), (line) => {
      if (line === 'here') here.resolve()
      else if (line.startsWith('answers ')) answers.resolve(line.slice('answers '.length))
    })
    for (const stream of this.#child.stdio) stream?.on('error', () => {})
    this.#writable(descriptor.seccomp).end(
      plan.seccomp === null ? '' : buildFilter(plan.seccomp.rules, plan.seccomp.architecture),
    )
    const options = plan.confinement === 'holder' ? [] : bubblewrapOptions(plan)
    this.#writable(descriptor.options).end(options.map((option) => `${option}\0`).join(''))
    for (const [index, text] of givenContents(plan).entries()) {
      this.#writable(descriptor.given + index).end(text)
    }
  }

  get isAlive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** Why it did not come up, in one line. */
  get failure(): string {
    const said = this.diagnostics()
      .split('\n')
      .find((line) => !line.includes('dmesg(1)'))
    return [this.#failure, said].filter(Boolean).join(': ') || `ended with ${this.#code ?? 'no word'}`
  }

  #readable(index: number): Readable {
    return this.#child.stdio[index] as Readable
  }

  #writable(index: number): Writable {
    return this.#child.stdio[index] as Writable
  }

  #onStatus(line: string): void {
    const [word, id, ...rest] = line.split(' ')
    if (this.#code !== null) this.#cpuMs = Math.round(parseTimes(line))
    else if (word === 'end') this.#code = Number(id)
    else if (word === 'failed' && id === '0') this.#failure = rest.join(' ')
    else if (word === 'done') this.#orders.get(Number(id))?.resolve()
    else if (word === 'failed') this.#orders.get(Number(id))?.reject(new Error(rest.join(' ')))
  }

  async #waitForEnd(): Promise<ChainEnd> {
    await new Promise<void>((resolve) => {
      this.#child.on('error', (error) => {
        this.#failure = error.message
        resolve()
      })
      this.#child.on('close', () => resolve())
    })
    for (const waiting of this.#orders.values()) waiting.reject(new Error('the sandbox has ended'))
    return { code: this.#code, cpuMs: this.#cpuMs }
  }

  /** Lets the gate take its next step: first to probe, then to become the agent. */
  step(): void {
    this.#writable(descriptor.gateIn).write('go\n')
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

  async holder(): Promise<number | null> {
    return (await childrenOf(this.pid))[0] ?? null
  }

  /** The gate's process as the host numbers it: down the chain from our child. */
  async gate(plan: SandboxPlan): Promise<number | null> {
    let pid = (await this.holder()) ?? undefined
    const depth = plan.confinement === 'bubblewrap' ? 3 : 1
    for (let step = 0; step < depth && pid !== undefined; step++) pid = (await childrenOf(pid)).at(-1)
    return pid ?? null
  }

  /** By force: the holder is the first process of its namespace, so the kernel ends everything in it. */
  async cut(): Promise<void> {
    const holder = await this.holder()
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
