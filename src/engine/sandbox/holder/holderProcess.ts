import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { ftruncateSync, mkdirSync, readFileSync, readlinkSync, writeFileSync, writeSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import { isDeepStrictEqual } from 'node:util'
import { run } from '../../base/process.ts'
import type { SandboxIo } from '../../base/sandbox.ts'
import { pathBytes } from '../bytes.ts'
import { systemdEnvironment } from '../limits/cgroups.ts'
import { completePlan } from '../plan/complete.ts'
import type { HostFacts } from '../host/host.ts'
import {
  bubblewrapOptions,
  commonMounts,
  commonTable,
  descriptor,
  givenContents,
  holderCommand,
  holderOrders,
  isPlainPath,
  mountTable,
  sealedNodes,
  tablePath,
  workspaceTable,
  type CommonMounts,
} from './holder.ts'
import { NamelessFile } from './namelessFile.ts'
import { planSandbox, requireShell, type SandboxPlan } from '../plan/plan.ts'
import { childrenOf, gateBelow } from '../narrow/processes.ts'
import { RelayProgram } from './relayProgram.ts'
import { buildFilter } from '../seccomp/filter.ts'
import { attachOrders, gateOrders, stageOrders } from './stageOrders.ts'
import { attachTable, planStage, placesOf, stagedPlan, stageTable, stepsToAdd, type Stage } from './stage.ts'
import { usualRequest } from '../host/usual.ts'
import type { ViewStep } from '../plan/view.ts'

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
  readonly #said = new Set<string>()
  readonly #ready = Promise.withResolvers<boolean>()
  readonly #staged = Promise.withResolvers<boolean>()

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
    // On a terminal, which is opened by name, there is a file here until then.
    stdio[descriptor.agentIn] = io?.stdin ?? hand()
    stdio[descriptor.agentOut] = io?.stdout ?? 'ignore'
    stdio[descriptor.agentErr] = io?.stderr ?? 'ignore'
    stdio[descriptor.gateIn] = 'pipe'
    stdio[descriptor.script] = hand()
    stdio[descriptor.options] = hand(common)
    const { seccomp, script, options, agentIn } = descriptor
    for (const index of [seccomp, script, options, ...(io === null ? [agentIn] : [])])
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
    void this.ended.then(() => {
      this.#ready.resolve(false)
      this.#staged.resolve(false)
    })
    for (const stream of this.child.stdio) stream?.on('error', () => {})
    if (io === null) this.#status.on('data', this.#listen)
  }

  get #status(): Readable {
    return this.child.stdio[descriptor.status] as Readable
  }

  readonly #listen = (said: Buffer) => {
    for (const line of said.toString().split('\n')) this.#said.add(line)
    if (this.isReady || this.#said.has('bare')) this.#ready.resolve(this.isReady)
    if (this.isStaged) this.#staged.resolve(true)
  }

  /** What every sandbox of this host has is mounted. */
  get isReady(): boolean {
    return this.#said.has('ready')
  }

  /** Whether that came to be, once it is known. */
  get ready(): Promise<boolean> {
    return this.#ready.promise
  }

  /** Bubblewrap has been started, and somebody waits inside. */
  get isStaged(): boolean {
    return this.#said.has('staged')
  }

  /** Whether that came to be, once it is known. */
  get staged(): Promise<boolean> {
    return this.#staged.promise
  }

  /** Its first process, and who waits inside, as the host numbers them. */
  get standing(): { readonly holderPid: number; readonly agentPid: number } | null {
    const holderPid = childrenOf(this.child.pid ?? -1)[0]
    const agentPid = holderPid === undefined ? null : gateBelow(holderPid, 'bubblewrap')
    return holderPid === undefined || agentPid === null ? null : { holderPid, agentPid }
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
    const table = this.isReady ? workspaceTable(plan) : mountTable(plan)
    writeFileSync(tablePath(plan.request), table, { mode: 0o600 })
    const mounted = table === '' ? 'nothing' : this.isReady ? 'workspace' : 'all'
    this.#begin(plan, terminal, holderOrders(plan, joinFiles, terminal, closesDescriptors, mounted))
    this.#taken()
  }

  #begin(plan: SandboxPlan, terminal: string | null, orders: string): void {
    const { seccomp } = plan
    const options = plan.confinement === 'holder' ? [] : bubblewrapOptions(plan, terminal)
    this.#write(descriptor.seccomp, seccomp === null ? '' : buildFilter(seccomp.rules, seccomp.architecture))
    this.#write(descriptor.options, options.map((option) => `${option}\0`).join(''))
    this.#write(descriptor.script, orders)
    this.orders.write('go\n')
  }

  #taken(): void {
    this.#files.dispose()
    this.#status.off('data', this.#listen)
  }

  /** Has bubblewrap started for nobody. */
  stage(stage: Stage, owner: string): void {
    const { root, parts, mask, table } = placesOf(stage)
    for (const folder of [root, parts]) mkdirSync(folder, { mode: 0o700 })
    writeFileSync(mask, '')
    writeFileSync(table, stageTable(stage, owner), { mode: 0o600 })
    this.#begin(stagedPlan(stage), stage.terminal, stageOrders(stage))
  }

  /** Makes what waits inside the sandbox of this plan, once it is told `attach`. */
  attach(stage: Stage, plan: SandboxPlan, added: readonly ViewStep[], closesDescriptors: boolean): void {
    writeFileSync(tablePath(plan.request), attachTable(stage, plan, added, hostMounts()), { mode: 0o600 })
    this.#write(descriptor.script, attachOrders(stage, plan))
    this.#write(descriptor.agentIn, gateOrders(plan, closesDescriptors))
    this.#taken()
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

/** Null where the descriptor has no path any more. */
export function pathOf(descriptor: number): string | null {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`)
  } catch {
    return null
  }
}

/** A holder for exactly this plan; a terminal it opens by itself. */
export function startHolder(plan: SandboxPlan, io: Descriptors): HolderProcess {
  const { shell, tools, limits, request } = plan
  const command = holderCommand({ shell, tools, scope: limits.scope }, request.workspace.dir)
  return new HolderProcess(command, environmentOf(plan), request.terminal ? null : io, givenContents(plan))
}

export const hostMounts = () => readFileSync('/proc/self/mountinfo', 'utf8')

type TakenHolder = {
  readonly holder: HolderProcess
  /** Who listens in it already. */
  readonly relay: RelayProgram | null
  /** For the order to attach it. */
  readonly waits: boolean
}

/**
 * A holder started before there is a dispatch, so that making namespaces is no part of the wait. Nothing of any
 * dispatch is known to it.
 */
export class SpareHolder implements Disposable {
  readonly #holder: HolderProcess
  readonly #mounts: string
  readonly #readMounts: () => string
  readonly #common: CommonMounts
  #stage: Stage | null = null
  #relay: RelayProgram | null = null
  #isTaken = false

  /** `label`: what it is known by among the processes. */
  constructor(host: HostFacts, label: string, readMounts: () => string = hostMounts) {
    this.#readMounts = readMounts
    this.#mounts = readMounts()
    this.#common = {
      etcLayer: host.etcLayer?.folder ?? null,
      layers: host.systemLayers,
      sealed: sealedNodes(host.uid === 0),
    }
    const table = commonTable(this.#common, `spare-${randomBytes(6).toString('hex')}`)
    const tools = { shell: requireShell(host), tools: host.tools, scope: null }
    const command = holderCommand(tools, label, this.#common)
    this.#holder = new HolderProcess(command, {}, null, [], table)
  }

  /** Has it start bubblewrap too, for an agent on this terminal; the folder is ours until the sandbox has ended. */
  async stage(host: HostFacts, dataDir: string, folder: string, io: SandboxIo): Promise<void> {
    const terminal = io.stdin === 'ignore' ? null : pathOf(io.stdin)
    // Without the layer over /etc it could become nobody's.
    if (
      this.#common.etcLayer === null ||
      terminal === null ||
      ![folder, terminal, dataDir].every(isPlainPath)
    )
      return
    const plan = await completePlan(planSandbox(usualRequest(dataDir), host))
    const stage = planStage(plan, folder, terminal)
    mkdirSync(folder, { mode: 0o700 })
    const made = await run(host.tools.mkfifo ?? 'mkfifo', ['-m', '600', placesOf(stage).bell])
    // Until then it reads from where its next orders will be.
    if (made.code !== 0 || !(await this.#holder.ready) || this.#isTaken) return
    this.#stage = stage
    this.#holder.stage(stage, `spare-${randomBytes(6).toString('hex')}`)
    void this.#holder.staged.then((isStaged) => isStaged && this.#listen(plan))
  }

  /** An agent's first connection finds somebody there, and no start waits for that. */
  #listen(plan: SandboxPlan): void {
    const { standing } = this.#holder
    if (this.#isTaken || standing === null) return
    const start = { ...standing, broker: null, aliases: [], hasChannel: true, isLazy: true }
    this.#relay = new RelayProgram(plan, start)
  }

  /** Whether there is nothing left to be done before there is a dispatch. */
  get isStaged(): boolean {
    return this.#holder.isStaged
  }

  /**
   * The holder, told what to hold, where it is as good as a new one for this plan; otherwise it ends. Asked once.
   */
  take(
    plan: SandboxPlan,
    terminal: string | null,
    joinFiles: readonly string[],
    closesDescriptors: boolean,
  ): TakenHolder | null {
    const stage = this.#stage
    const added = stage === null ? null : stepsToAdd(stage, plan, terminal)
    const isUsable = stage === null || (added !== null && this.#holder.isStaged)
    if (!isUsable || !this.#serves(plan)) {
      this[Symbol.dispose]()
      return null
    }
    this.#isTaken = true
    const holder = this.#holder
    if (stage !== null && added !== null) holder.attach(stage, plan, added, closesDescriptors)
    else holder.charge(plan, joinFiles, terminal, closesDescriptors)
    return { holder, relay: this.#relay, waits: stage !== null }
  }

  /** What every sandbox of this host has is mounted. */
  get isReady(): boolean {
    return this.#holder.isReady
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
    if (!this.#isTaken) {
      void this.#relay?.stop()
      this.#holder.dismiss()
    }
    this.#isTaken = true
  }
}
