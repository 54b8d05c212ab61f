import { spawn, type ChildProcess } from 'node:child_process'
import { open, readFile } from 'node:fs/promises'
import { constants as osConstants } from 'node:os'
import type { Readable, Writable } from 'node:stream'
import { OrangeryError } from '../../shared/errors.ts'
import type { DeclaredEqualsActual } from '../../shared/effective.ts'
import type { HostAlias, LimitName, RunningSandbox, SandboxEnd, SandboxIo } from '../base/sandbox.ts'
import { makeCgroup, systemdEnvironment, type Cgroup } from './cgroups.ts'
import { bubblewrapOptions, descriptor, holderCommand, mountOf } from './holder.ts'
import { keepTail, onLines } from './lines.ts'
import { judge } from './probe.ts'
import type { SandboxPlan } from './plan.ts'
import { buildFilter } from './seccomp/filter.ts'
import { hostsFile } from './view.ts'
import { watchDisk } from './disk.ts'
import { Relay } from './relay.ts'

type Waiting = { readonly resolve: () => void; readonly reject: (error: Error) => void }

const graceMs = 2000

const signalNames = new Map(
  Object.entries(osConstants.signals).map(([name, number]) => [number, name as NodeJS.Signals]),
)

/** A shell reports death by signal n as 128 + n, and so does bubblewrap. */
export function signalOfCode(code: number): NodeJS.Signals | null {
  return code > 128 ? (signalNames.get(code - 128) ?? null) : null
}

async function childrenOf(pid: number): Promise<readonly number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
  return text.split(' ').filter(Boolean).map(Number)
}

/** `times` of a shell: two lines, its own and its children's, each user and system as 0m0.00s. */
function parseTimes(line: string): number {
  return [...line.matchAll(/(\d+)m([\d.]+)s/g)].reduce(
    (sum, [, minutes, seconds]) => sum + Number(minutes) * 60_000 + Number(seconds) * 1000,
    0,
  )
}

type Descriptors = { readonly stdin: number; readonly stdout: number; readonly stderr: number }

function startChain(plan: SandboxPlan, io: Descriptors, cgroup: Cgroup | null): ChildProcess {
  const [file, ...args] = holderCommand(plan, cgroup?.joinFiles ?? [])
  const stdio: ('pipe' | 'ignore' | number)[] = []
  stdio[descriptor.orders] = 'pipe'
  stdio[descriptor.status] = 'pipe'
  stdio[descriptor.diagnostics] = 'pipe'
  stdio[descriptor.seccomp] = 'pipe'
  stdio[descriptor.agentIn] = io.stdin
  stdio[descriptor.agentOut] = io.stdout
  stdio[descriptor.agentErr] = io.stderr
  stdio[descriptor.gateIn] = 'pipe'
  stdio[descriptor.gateOut] = 'pipe'
  stdio[descriptor.options] = 'pipe'
  const env = {
    ...(plan.limits.scope === null ? {} : systemdEnvironment()),
    ...(plan.inheritsEnvironment ? process.env : {}),
    ...(plan.confinement === 'holder' ? plan.environment : {}),
  }
  return spawn(file, args, {
    stdio,
    env,
    cwd: '/',
    // A session of its own: Ctrl-C in the user's terminal is ours to pass on, not the holder's to die of.
    detached: true,
  })
}

class LinuxSandbox implements RunningSandbox {
  readonly driver: string
  readonly pid: number
  probe: DeclaredEqualsActual = { ok: false, checks: [] }
  readonly ended: Promise<SandboxEnd>

  readonly #plan: SandboxPlan
  readonly #child: ChildProcess
  readonly #cgroup: Cgroup | null
  readonly #diagnostics: () => string
  readonly #startedAt = performance.now()
  readonly #orders = new Map<number, Waiting>()
  readonly #limits = new Set<LimitName>()
  readonly #timers = new AbortController()
  readonly #relay: Relay
  #lastOrder = 0
  #code: number | null = null
  #cpuMs = 0
  #failure: string | null = null
  #gateIsHere: (() => void) | null = null
  #gateSaid: ((answers: string) => void) | null = null
  #isReleased = false
  #holderPid: number | null = null

  constructor(plan: SandboxPlan, io: Descriptors, cgroup: Cgroup | null) {
    this.#plan = plan
    this.#cgroup = cgroup
    this.driver = plan.driver
    this.#child = startChain(plan, io, cgroup)
    this.pid = this.#child.pid ?? -1
    this.#relay = new Relay(plan)
    this.#diagnostics = keepTail(this.#stream(descriptor.diagnostics) as Readable)
    onLines(this.#stream(descriptor.status) as Readable, (line) => this.#onStatus(line))
    onLines(this.#stream(descriptor.gateOut) as Readable, (line) => {
      if (line === 'here') this.#gateIsHere?.()
      else if (line.startsWith('answers ')) this.#gateSaid?.(line.slice(8))
    })
    for (const index of [descriptor.orders, descriptor.seccomp, descriptor.gateIn, descriptor.options]) {
      this.#stream(index).on('error', () => {})
    }
    this.ended = this.#waitForEnd()
    // Who only wants to start it need not listen; who awaits `ended` still gets the error.
    this.ended.catch(() => {})
  }

  #stream(index: number): Readable | Writable {
    return this.#child.stdio[index] as Readable | Writable
  }

  #write(index: number, text: string): void {
    ;(this.#stream(index) as Writable).write(text)
  }

  #onStatus(line: string): void {
    const [word, id, ...rest] = line.split(' ')
    if (word === 'end') this.#code = Number(id)
    else if (word === 'failed' && id === '0') this.#failure = rest.join(' ')
    else if (word === 'done') this.#orders.get(Number(id))?.resolve()
    else if (word === 'failed') this.#orders.get(Number(id))?.reject(new Error(rest.join(' ')))
    else if (this.#code !== null) this.#cpuMs = Math.round(parseTimes(line))
  }

  async #waitForEnd(): Promise<SandboxEnd> {
    await new Promise<void>((resolve, reject) => {
      this.#child.on('error', reject)
      this.#child.on('close', () => resolve())
    })
    const wallMs = Math.round(performance.now() - this.#startedAt)
    this.#timers.abort()
    for (const waiting of this.#orders.values()) waiting.reject(new Error('the sandbox has ended'))
    let peakMb = 0
    if (this.#cgroup !== null) {
      const [events, use] = await Promise.all([this.#cgroup.readEvents(), this.#cgroup.readUse()])
      if (events.memory > 0) this.#limits.add('memory')
      if (events.pids > 0) this.#limits.add('pids')
      peakMb = use.peakMb ?? 0
      await this.#cgroup[Symbol.asyncDispose]()
    }
    const code = this.#code ?? 137
    return {
      exitCode: code,
      signal: signalOfCode(code),
      limits: [...this.#limits],
      resources: { wall_ms: wallMs, cpu_ms: this.#cpuMs, max_rss_mb: peakMb },
    }
  }

  /** Resolves when the agent stands at the gate and was probed. */
  async enter(): Promise<void> {
    const answered = new Promise<string>((resolve) => {
      this.#gateSaid = resolve
    })
    const { seccomp } = this.#plan
    ;(this.#stream(descriptor.seccomp) as Writable).end(
      seccomp === null ? '' : buildFilter(seccomp.rules, seccomp.architecture),
    )
    const options = this.#plan.confinement === 'holder' ? [] : bubblewrapOptions(this.#plan)
    ;(this.#stream(descriptor.options) as Writable).end(options.map((option) => `${option}\0`).join(''))
    // Bubblewrap must bind the workspace while it is writable, or its bind would stay read-only for good: so
    // narrow only when the gate is there, which is after all binds.
    if (this.#plan.files === 'ro') {
      const here = new Promise<boolean>((resolve) => {
        this.#gateIsHere = () => resolve(true)
      })
      if (!(await Promise.race([here, this.ended.then(() => false)]))) throw this.#startError()
      await this.setFiles('ro')
    }
    this.#write(descriptor.gateIn, 'probe\n')
    const answers = await Promise.race([answered, this.ended.then(() => null)])
    if (answers === null) throw this.#startError()
    this.probe = await judge(this.#plan, await this.#findAgent(), answers)
  }

  #startError(): OrangeryError {
    const said = this.#diagnostics().split('\n').at(-1) ?? ''
    const why = [this.#failure, said].filter(Boolean).join(': ') || `ended with ${this.#code}`
    return new OrangeryError('sandbox.start_failed', `the sandbox did not start: ${why}`, {
      kind: 'cannot_create',
      hint: 'Run `orangery doctor` to see what this host can do.',
      details: { diagnostics: this.#diagnostics() },
    })
  }

  /** The gate's process as the host numbers it: down the chain from our child. */
  async #findAgent(): Promise<number> {
    const depth = this.#plan.confinement === 'bubblewrap' ? 3 : 1
    let pid = (await childrenOf(this.pid))[0]
    this.#holderPid = pid ?? null
    for (let step = 0; step < depth && pid !== undefined; step++) pid = (await childrenOf(pid)).at(-1)
    if (pid === undefined) throw this.#startError()
    return pid
  }

  release(): void {
    if (this.#isReleased) return
    if (!this.probe.ok) {
      throw new OrangeryError(
        'sandbox.probe_mismatch',
        'the sandbox is not what was declared: it stays shut',
        {
          kind: 'refused',
          details: this.probe,
        },
      )
    }
    this.#isReleased = true
    this.#write(descriptor.gateIn, 'go\n')
    const { timeoutS, diskMb } = this.#plan.limits
    if (timeoutS !== null) this.#stopAfter(timeoutS * 1000)
    if (diskMb !== null) {
      const folders = this.#plan.roots.map((root) => root.upper)
      watchDisk(folders, diskMb, this.#timers.signal, () => {
        this.#limits.add('disk')
        void this.kill()
      })
    }
  }

  #stopAfter(ms: number): void {
    const timer = setTimeout(() => {
      this.#limits.add('timeout')
      this.signal('SIGTERM')
      const last = setTimeout(() => void this.kill(), graceMs)
      this.#timers.signal.addEventListener('abort', () => clearTimeout(last))
    }, ms)
    this.#timers.signal.addEventListener('abort', () => clearTimeout(timer))
  }

  #order(text: string): Promise<void> {
    const id = ++this.#lastOrder
    return new Promise<void>((resolve, reject) => {
      this.#orders.set(id, { resolve, reject })
      if (this.#child.exitCode !== null || this.#child.signalCode !== null) {
        reject(new Error('the sandbox has ended'))
      } else this.#write(descriptor.orders, `${id} ${text}\n`)
    }).finally(() => this.#orders.delete(id))
  }

  signal(name: NodeJS.Signals): void {
    this.#order(`signal ${name.slice(3)} ${this.#plan.confinement}`).catch(() => {})
  }

  async kill(): Promise<void> {
    // The holder is the first process of its namespace: the kernel ends everything in it before it is reaped.
    const [holder] = await childrenOf(this.pid)
    const target = holder ?? this.#holderPid
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      try {
        process.kill(target ?? this.pid, 'SIGKILL')
      } catch {
        this.#child.kill('SIGKILL')
      }
    }
    await this.ended.catch(() => {})
  }

  async setFiles(files: 'ro' | 'rw'): Promise<{ readonly tookMs: number; readonly note: string | null }> {
    const start = performance.now()
    for (const root of this.#plan.roots) {
      if (root.access === 'ro') continue
      await this.#order(`remount ${files} ${mountOf(this.#plan, root.slot)}`)
    }
    return { tookMs: performance.now() - start, note: null }
  }

  async startRelay(brokerSocket: string, hosts: readonly HostAlias[]): Promise<void> {
    const text = hostsFile(hosts)
      .replaceAll('\n', String.raw`\n`)
      .replaceAll(' ', String.raw`\t`)
    await this.#order(`hosts ${text}`)
    const [holder] = await childrenOf(this.pid)
    if (holder === undefined)
      throw new OrangeryError('sandbox.ended', 'the sandbox has ended', { kind: 'busy' })
    await this.#relay.start(holder, brokerSocket, hosts)
  }

  stopRelay(): Promise<void> {
    return this.#relay.stop()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#relay.stop()
    await this.kill()
  }
}

/** Carries out a plan up to the agent's first instruction, which waits for `release()`. */
export async function startSandbox(plan: SandboxPlan, io: SandboxIo): Promise<RunningSandbox> {
  const cgroup = plan.limits.cgroup === null ? null : await makeCgroup(plan.limits.cgroup)
  const nothing = io.stdin === 'ignore' ? await open('/dev/null', 'r') : null
  const sandbox = new LinuxSandbox(plan, { ...io, stdin: nothing?.fd ?? (io.stdin as number) }, cgroup)
  await nothing?.close()
  try {
    await sandbox.enter()
    return sandbox
  } catch (error) {
    await sandbox[Symbol.asyncDispose]()
    throw error
  }
}
