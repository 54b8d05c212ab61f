import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { ftruncateSync, readFileSync, writeFileSync, writeSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import { isDeepStrictEqual } from 'node:util'
import { pathBytes } from './bytes.ts'
import { systemdEnvironment } from './cgroups.ts'
import type { HostFacts } from './host.ts'
import {
  bubblewrapOptions,
  commonMounts,
  commonTable,
  descriptor,
  givenContents,
  holderCommand,
  holderOrders,
  mountTable,
  tablePath,
  workspaceTable,
  type CommonMounts,
} from './holder.ts'
import { NamelessFile } from './namelessFile.ts'
import { requireShell, type SandboxPlan } from './plan.ts'
import { buildFilter } from './seccomp/filter.ts'

export type Descriptors = { readonly stdin: number; readonly stdout: number; readonly stderr: number }

function environmentOf(plan: SandboxPlan): NodeJS.ProcessEnv {
  if (plan.inheritsEnvironment) return { ...process.env, ...plan.environment }
  // Empty: the first process inside shows its starter's environment in /proc, whatever is cleared later.
  return plan.limits.scope === null ? {} : systemdEnvironment()
}

/** A holder that stands in namespaces of its own and waits to be told what to hold. */
export class HolderProcess {
  readonly child: ChildProcess
  /** Why it could not be started, or null, once it has ended. */
  readonly ended: Promise<string | null>
  readonly #files = new DisposableStack()
  readonly #descriptors = new Map<number, number>()
  #isReady = false

  constructor(
    [file = 'setpriv', ...args]: readonly string[],
    environment: NodeJS.ProcessEnv,
    io: Descriptors | null,
    given: readonly string[],
    common = '',
  ) {
    const stdio: ('pipe' | 'ignore' | number)[] = []
    const hand = (content = '') => this.#files.use(new NamelessFile(content)).descriptor
    stdio[descriptor.seccomp] = hand()
    stdio[descriptor.status] = 'pipe'
    // Bubblewrap keeps this one open where the agent sees it, in /proc/1/fd. Node's pipes are sockets, which
    // cannot be opened again from there; a file could be, and be grown without end.
    stdio[descriptor.diagnostics] = 'pipe'
    stdio[descriptor.orders] = 'pipe'
    stdio[descriptor.agentIn] = io?.stdin ?? 'ignore'
    stdio[descriptor.agentOut] = io?.stdout ?? 'ignore'
    stdio[descriptor.agentErr] = io?.stderr ?? 'ignore'
    stdio[descriptor.gateIn] = 'pipe'
    stdio[descriptor.script] = hand()
    stdio[descriptor.options] = hand(common)
    for (const index of [descriptor.seccomp, descriptor.script, descriptor.options])
      this.#descriptors.set(index, stdio[index] as number)
    stdio.push(...given.map(hand))
    this.child = spawn(file, args, {
      stdio,
      env: environment,
      cwd: '/',
      // A session of its own: Ctrl-C in the user's terminal is ours to pass on, not the holder's to die of.
      detached: true,
    })
    this.ended = new Promise((resolve) => {
      this.child.on('error', (error) => resolve(error.message))
      this.child.on('close', () => resolve(null))
    })
    for (const stream of this.child.stdio) stream?.on('error', () => {})
    const status = this.child.stdio[descriptor.status] as Readable
    if (common !== '') status.once('data', (said: Buffer) => (this.#isReady = said.toString() === 'ready\n'))
  }

  /** What every sandbox of this host has is mounted. */
  get isReady(): boolean {
    return this.#isReady
  }

  get isAlive(): boolean {
    return this.child.pid !== undefined && this.child.exitCode === null && this.child.signalCode === null
  }

  /** Tells it what to hold, once. `terminal` is the host's path of the agent's terminal, where it has one. */
  charge(
    plan: SandboxPlan,
    joinFiles: readonly string[],
    terminal: string | null,
    closesDescriptors: boolean,
  ): void {
    const { seccomp } = plan
    const options = plan.confinement === 'holder' ? [] : bubblewrapOptions(plan, terminal)
    const table = this.#isReady ? workspaceTable(plan) : mountTable(plan)
    writeFileSync(tablePath(plan.request), table, { mode: 0o600 })
    this.#write(descriptor.seccomp, seccomp === null ? '' : buildFilter(seccomp.rules, seccomp.architecture))
    this.#write(descriptor.options, options.map((option) => `${option}\0`).join(''))
    this.#write(descriptor.script, holderOrders(plan, joinFiles, terminal, closesDescriptors, table))
    this.#files.dispose()
    this.orders.write('go\n')
  }

  get orders(): Writable {
    return this.child.stdio[descriptor.orders] as Writable
  }

  #write(index: number, content: string | Uint8Array): void {
    const bytes = typeof content === 'string' ? pathBytes(content) : Buffer.from(content)
    const file = this.#descriptors.get(index)
    if (file === undefined) return
    ftruncateSync(file)
    // At a position: the offset the other side starts reading at stays 0.
    if (bytes.length > 0) writeSync(file, bytes, 0, bytes.length, 0)
  }

  /** A word that is passed over: the first one through a pipe takes several times as long. */
  rehearse(): void {
    this.orders.write('soon\n')
  }

  /** One that was never charged ends with its orders. */
  dismiss(): void {
    this.#files.dispose()
    this.orders.end()
  }
}

/** A holder for exactly this plan; a terminal it opens by itself. */
export function startHolder(plan: SandboxPlan, io: Descriptors): HolderProcess {
  const { shell, tools, limits, request } = plan
  const command = holderCommand({ shell, tools, scope: limits.scope }, request.workspace.dir)
  return new HolderProcess(command, environmentOf(plan), request.terminal ? null : io, givenContents(plan))
}

const hostMounts = () => readFileSync('/proc/self/mountinfo', 'utf8')

/**
 * A holder started before there is a dispatch, so that making namespaces is no part of the wait. Nothing of any
 * dispatch is known to it.
 */
export class SpareHolder implements Disposable {
  readonly #holder: HolderProcess
  readonly #mounts: string
  readonly #readMounts: () => string
  readonly #common: CommonMounts
  /** There is nothing that every sandbox has. */
  readonly #isPlain: boolean
  #isTaken = false

  /** `label`: what it is known by among the processes. */
  constructor(host: HostFacts, label: string, readMounts: () => string = hostMounts) {
    this.#readMounts = readMounts
    this.#mounts = readMounts()
    this.#common = { etcLayer: host.etcLayer?.folder ?? null, sealsDevices: host.uid === 0 }
    const table = commonTable(this.#common, `spare-${randomBytes(6).toString('hex')}`)
    this.#isPlain = table === ''
    const tools = { shell: requireShell(host), tools: host.tools, scope: null }
    const command = holderCommand(tools, label, !this.#isPlain)
    this.#holder = new HolderProcess(command, {}, null, [], table)
  }

  /** The holder, where it is as good as a new one for this plan; otherwise it ends. Asked once. */
  take(plan: SandboxPlan): HolderProcess | null {
    if (!this.#serves(plan)) {
      this[Symbol.dispose]()
      return null
    }
    this.#isTaken = true
    return this.#holder
  }

  /** What every sandbox of this host has is mounted, or there is no such thing. */
  get isReady(): boolean {
    return this.#isPlain || this.#holder.isReady
  }

  rehearse(): void {
    if (!this.#isTaken) this.#holder.rehearse()
  }

  get pid(): number | undefined {
    return this.#holder.child.pid
  }

  #serves(plan: SandboxPlan): boolean {
    const isAlike =
      plan.confinement === 'bubblewrap' &&
      plan.limits.scope === null &&
      plan.request.terminal &&
      givenContents(plan).length === 0 &&
      this.isReady &&
      isDeepStrictEqual(commonMounts(plan), this.#common)
    // What the host mounted since does not show in there: a root on it would be an empty folder.
    return isAlike && !this.#isTaken && this.#holder.isAlive && this.#readMounts() === this.#mounts
  }

  [Symbol.dispose](): void {
    if (!this.#isTaken) this.#holder.dismiss()
    this.#isTaken = true
  }
}
