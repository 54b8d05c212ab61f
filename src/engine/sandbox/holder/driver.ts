import type { ChildProcess } from 'node:child_process'
import { constants as osConstants } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { DeclaredEqualsActual } from '../../../shared/effective.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { pause } from '../../base/pause.ts'
import type {
  OnDeniedWrite,
  HostAlias,
  LimitName,
  Peer,
  RunningSandbox,
  SandboxEnd,
  SandboxIo,
  TurnedAway,
} from '../../base/sandbox.ts'
import { readerOf, unifiedGroupOf, type Cgroup, type CgroupReader } from '../limits/cgroups.ts'
import { lastLines } from './agentEnvironment.ts'
import { Chain, readProcess } from './chain.ts'
import { WriteWatch } from '../denials/deniedWrites.ts'
import { DiskLimit } from '../limits/diskLimit.ts'
import type { Descriptors, SpareHolder } from './holderProcess.ts'
import { InnerMounts } from './innerMounts.ts'
import { LiveFiles, type Flip } from '../narrow/liveFiles.ts'
import type { SandboxPlan } from '../plan/plan.ts'
import { judgeAnswers, judgeProcess } from './probe.ts'
import { Relay } from './relay.ts'
import { borrowFrom } from './borrow.ts'
import { Stillness } from '../narrow/stillness.ts'
import { givenTo, ProgramVoice, type Given } from '../denials/tell.ts'
import { ProcessTree } from '../narrow/tree.ts'
import { NetworkCounters } from '../denials/turnedAway.ts'

const graceMs = 2000
const cutAfterMs = 1000
const startPatienceMs = 30_000
/** Until the end of a sandbox is heard of, whose relay has gone. */
const endPatienceMs = 500
const tasksPauseMs = 10
const usePauseMs = 500
/** Of our own time, however many processes there are to look at. */
const useShare = 1 / 20
/** How long an end that we make is put off to look once more. */
const lastLookMs = 200

const signalNames = new Map(
  Object.entries(osConstants.signals).map(([name, number]) => [number, name as NodeJS.Signals]),
)

/** A shell reports death by signal n as 128 + n, and so does bubblewrap. */
export function signalOfCode(code: number): NodeJS.Signals | null {
  return code > 128 ? (signalNames.get(code - 128) ?? null) : null
}

const hasEnded = () => new OrangeryError('sandbox.ended', 'network: the sandbox has ended', { kind: 'busy' })

/** Up to the agent's first instruction, which waits for `release()`, and from there to its end. */
export class LinuxSandbox implements RunningSandbox {
  readonly driver: string
  readonly pid: number
  readonly ended: Promise<SandboxEnd>
  probe: DeclaredEqualsActual = { ok: false, checks: [] }
  seesDeniedWrites = false

  readonly #plan: SandboxPlan
  readonly #chain: Chain
  readonly #cgroup: Cgroup | null
  #scope: CgroupReader | null = null
  readonly #liveFiles: LiveFiles
  readonly #relay: Relay
  readonly #watch: WriteWatch
  #watchLost: string | null = null
  readonly #tidy: () => Promise<void>
  readonly #given: Given
  readonly #startedAt = performance.now()
  readonly #limits = new Set<LimitName>()
  readonly #likelyLimits = new Set<LimitName>()
  /** Aborted at the end: whatever waits or watches stops then. */
  readonly #life = new AbortController()
  #isReleased = false
  /** We ended it ourselves, however roughly. */
  #isEnding = false
  #tree: ProcessTree | null = null
  #mounts: InnerMounts | null = null
  #stillness: Stillness | null = null
  #agentPid: number | null = null
  #counters: NetworkCounters | null = null
  #voice: ProgramVoice | null = null
  #peakMb = 0
  #cpuMs = 0
  readonly #disk: DiskLimit | null

  constructor(
    plan: SandboxPlan,
    io: Descriptors & Pick<SandboxIo, 'isAnnotated'>,
    spare: SpareHolder | null,
    cgroup: Cgroup | null,
    tidy: () => Promise<void>,
  ) {
    this.#tidy = tidy
    this.#plan = plan
    this.#cgroup = cgroup
    const { diskMb } = plan.limits
    this.#disk = diskMb === null ? null : new DiskLimit(plan, diskMb)
    this.#given = givenTo(io)
    this.#chain = new Chain(plan, io, cgroup?.joinFiles ?? [], spare, () => this.#lookAtUse())
    this.#liveFiles = new LiveFiles(plan, this.#chain)
    this.#relay = new Relay(plan, this.#chain.relay)
    this.#watch = new WriteWatch(plan)
    this.driver = plan.driver
    this.pid = this.#chain.pid
    this.ended = this.#waitForEnd()
  }

  async #waitForEnd(): Promise<SandboxEnd> {
    const { code: reported, cpuMs, peakMb: told, reached, lost, unstartable } = await this.#chain.ended
    this.#watch.stop()
    this.#mounts?.[Symbol.dispose]()
    const wallMs = Math.round(performance.now() - this.#startedAt)
    this.#life.abort()
    await Promise.all([this.#relay.stop(), this.#tidy()])
    let peakMb = told > 0 ? told : this.#peakMb
    if (this.#cgroup !== null) {
      const [events, use] = await Promise.all([this.#cgroup.readEvents(), this.#cgroup.readUse()])
      if (events.memory > 0) this.#limits.add('memory')
      if (events.pids > 0) this.#limits.add('pids')
      peakMb = use.peakMb ?? peakMb
      this.#cpuMs = Math.max(this.#cpuMs, use.cpuMs ?? 0)
      await this.#cgroup[Symbol.asyncDispose]()
    }
    for (const limit of reached) this.#limits.add(limit)
    const isOver = this.#isReleased ? await this.#disk?.isOver() : 'no'
    if (isOver === 'yes') this.#limits.add('disk')
    if (isOver === 'likely') this.#likelyLimits.add('disk')
    const code = reported ?? 128 + osConstants.signals.SIGKILL
    return {
      exitCode: code,
      signal: signalOfCode(code),
      lost: this.#isEnding ? null : (this.#watchLost ?? lost),
      unstartable,
      limits: [...this.#limits],
      likelyLimits: [...this.#likelyLimits].filter((limit) => !this.#limits.has(limit)),
      resources: {
        wall_ms: wallMs,
        cpu_ms: Math.max(cpuMs, this.#cpuMs),
        max_rss_mb: Math.round(peakMb),
        ...(this.#disk === null ? {} : { disk_mb: this.#disk.mostMb }),
      },
    }
  }

  #startError(): OrangeryError {
    return new OrangeryError('sandbox.start_failed', `the sandbox did not start: ${this.#chain.failure}`, {
      kind: 'cannot_create',
      hint: 'Run `orangery doctor` to see what this host can do.',
      details: { diagnostics: this.#chain.diagnostics },
    })
  }

  /** A step of the start, or the reason why it will never come. */
  async #orEnd<T>(step: Promise<T>): Promise<T> {
    const cancel = new AbortController()
    const late = sleep(startPatienceMs, undefined, { signal: cancel.signal })
    try {
      const first = await Promise.race([
        step.then((value) => ({ value })),
        this.#chain.ended.then(() => null),
        late.then(() => null),
      ])
      if (first === null) throw this.#startError()
      return first.value
    } finally {
      late.catch(() => {})
      cancel.abort()
    }
  }

  /** Resolves when the agent stands at the gate and was probed. */
  async enter(): Promise<void> {
    await this.#disk?.begin()
    // Bubblewrap must bind the workspace while it is writable, or its bind would stay read-only for good: so
    // narrow only when the gate is there, after all binds. Where nothing is to be narrowed it need not wait.
    const readOnly = this.#plan.roots.filter(
      (root) => this.#plan.confinement === 'holder' && root.access === 'ro',
    )
    const narrows = this.#plan.files === 'ro' || readOnly.length > 0
    if (this.#plan.watches !== null) await this.#startWatch()
    if (!narrows) this.#chain.step()
    await this.#orEnd(this.#chain.here)
    if (this.#plan.files === 'ro') await this.#liveFiles.narrowAtStart()
    for (const root of readOnly) await this.#liveFiles.remount(root, 'ro')
    if (narrows) this.#chain.step()
    const { holder } = this.#chain
    const gate = this.#chain.gate(this.#plan)
    if (gate === null || holder === null) throw this.#startError()
    this.#agentPid = gate
    const group = this.#plan.limits.scope === null ? null : unifiedGroupOf(readProcess(gate, 'cgroup'))
    if (group !== null) this.#scope = readerOf([group])
    this.#tree = new ProcessTree(holder, gate, this.#plan.confinement)
    this.#mounts = new InnerMounts(this.#plan, holder, gate, this.#tree)
    this.#stillness = new Stillness(this.#chain, this.#tree)
    await this.#liveFiles.stand(this.#tree, this.#mounts, this.#stillness)
    if (this.#plan.request.network !== 'host') {
      this.#counters = new NetworkCounters(gate)
      this.#voice = new ProgramVoice(this.#tree, this.#given, borrowFrom(this.#plan, holder))
    }
    // The kernel's side is looked at while the gate still tries its own.
    const seen = judgeProcess(this.#plan, gate)
    const answers = await this.#orEnd(this.#chain.answers)
    const checks = [...judgeAnswers(this.#plan, answers), ...seen]
    this.probe = { ok: checks.every((check) => check.ok), checks }
  }

  async #startWatch(): Promise<void> {
    const descriptor = await this.#orEnd(this.#chain.watch)
    const { holder } = this.#chain
    const gate = this.#chain.gate(this.#plan)
    if (descriptor < 0) return
    if (gate === null || holder === null) throw this.#startError()
    // Without who listens every call that writes would fail, and not by a rule of ours.
    const lost = () => {
      this.#watchLost = 'the process that watches writes was killed'
      this.#chain.cut()
    }
    await this.#orEnd(this.#watch.start(holder, gate, descriptor, lost))
    this.seesDeniedWrites = true
    this.#chain.step()
  }

  onDeniedWrite(listener: OnDeniedWrite): void {
    this.#watch.listen(listener)
  }

  release(): void {
    if (this.#isReleased) return
    const mismatch = this.probe.checks.find((check) => !check.ok)
    if (!this.probe.ok) {
      throw new OrangeryError(
        'sandbox.probe_mismatch',
        `the sandbox is not what was declared: ${mismatch?.name ?? 'it was not probed'}`,
        { kind: 'refused', details: this.probe },
      )
    }
    this.#isReleased = true
    this.#chain.become(lastLines(this.#plan))
    void this.#watchUse()
    const { timeoutS } = this.#plan.limits
    if (timeoutS !== null) void this.#stopAfter(timeoutS * 1000)
    const [tree, mounts, stillness] = [this.#tree, this.#mounts, this.#stillness]
    if (tree === null || mounts === null || stillness === null) return
    this.#disk?.watch({ tree, mounts, stillness }, this.#life.signal, (isCertain) => {
      const limits = isCertain ? this.#limits : this.#likelyLimits
      limits.add('disk')
      void this.kill()
    })
  }

  #pause(ms: number): Promise<boolean> {
    return pause(ms, this.#life.signal)
  }

  async #watchUse(): Promise<void> {
    const most = this.#plan.limits.processes
    if (most !== null) void this.#watchTasks(most)
    // Not at once: the agent's first instruction would wait for it.
    let [pauseMs, tookMs] = [15, 0]
    while (await this.#pause(Math.max(pauseMs, tookMs / useShare))) {
      pauseMs = Math.min(pauseMs * 4, usePauseMs)
      const start = performance.now()
      await this.#lookAtUse()
      tookMs = performance.now() - start
      // The holder tells at the end, unless systemd kills it: some time after memory ran out under one who stays.
      const events = await this.#scope?.readEvents()
      if (events !== undefined && events.memory > 0) this.#limits.add('memory')
    }
  }

  async #lookAtUse(): Promise<void> {
    const use = await this.#tree?.use()
    if (use === undefined) return
    this.#peakMb = Math.max(this.#peakMb, use.memoryMb)
    this.#cpuMs = Math.max(this.#cpuMs, use.cpuMs)
  }

  /**
   * The kernel tells nobody of a fork that RLIMIT_NPROC refused: seen is that there are as many as may be. Counted is
   * whenever something was started, and often: a program that copes goes on at once.
   */
  async #watchTasks(most: number): Promise<void> {
    let [last, pauseMs] = ['', tasksPauseMs]
    while (!this.#likelyLimits.has('pids') && (await this.#pause(pauseMs))) {
      const now = this.#tree?.lastStarted() ?? ''
      if (now === last) continue
      last = now
      const start = performance.now()
      if (((await this.#tree?.countTasks()) ?? 0) >= most) this.#likelyLimits.add('pids')
      pauseMs = Math.max(tasksPauseMs, 2 * (performance.now() - start))
    }
  }

  async #stopAfter(ms: number): Promise<void> {
    if (!(await this.#pause(ms))) return
    this.#limits.add('timeout')
    this.signal('SIGTERM')
    if (await this.#pause(graceMs)) await this.kill()
  }

  signal(name: NodeJS.Signals): void {
    this.#chain.order(`signal ${name.slice(3)} ${this.#plan.confinement}`).catch(() => {})
  }

  async kill(): Promise<void> {
    this.#isEnding = true
    // What a killed process used is told to nobody afterwards.
    if (this.#chain.isAlive) await Promise.race([this.#lookAtUse(), this.#pause(lastLookMs)])
    // Gently first, so that the holder can still tell what it cost; by force if it does not answer.
    this.#chain.order(`end ${this.#plan.confinement}`).catch(() => {})
    const patience = setTimeout(() => this.#chain.cut(), cutAfterMs)
    await this.#chain.ended
    clearTimeout(patience)
    await this.ended
  }

  setFiles(files: 'ro' | 'rw', writable?: readonly string[]): Promise<Flip> {
    return this.#liveFiles.set(files, writable)
  }

  async startRelay(
    brokerSocket: string,
    hosts: readonly HostAlias[],
    onStarted?: (relay: ChildProcess) => void,
    isLazy = false,
  ): Promise<readonly string[]> {
    const { holder } = this.#chain
    const agent = this.#agentPid
    if (holder === null || agent === null || !this.#chain.isAlive) throw hasEnded()
    try {
      return await this.#relay.start({
        holderPid: holder,
        agentPid: agent,
        broker: brokerSocket,
        aliases: hosts,
        onStarted,
        isLazy,
      })
    } catch (error) {
      // The kernel takes the relay along with the sandbox, and it may be heard of first.
      const isOver = this.#chain.ended.then(() => true)
      throw (await Promise.race([isOver, sleep(endPatienceMs, false, { ref: false })])) ? hasEnded() : error
    }
  }

  async stopRelay(): Promise<void> {
    await this.#relay.stop()
    this.#relay.setNames([])
  }

  async tell(peer: Peer, line: string): Promise<void> {
    await this.#voice?.tell(peer, line)
  }

  turnedAway(): TurnedAway | null {
    return this.#counters?.read() ?? null
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
    this.#counters?.[Symbol.dispose]()
    this.#counters = null
  }
}
