import type { BoundaryLevel } from '../../shared/boundary.ts'
import type { DispatchStatus } from '../../shared/dispatch.ts'
import type { EventBody } from '../../shared/events.ts'
import { protocolReader } from '../agents/index.ts'
import { ensurePrivateDir } from '../base/files.ts'
import type { RunningSandbox, SandboxEnd } from '../base/sandbox.ts'
import type { Workspace } from '../base/workspace.ts'
import {
  capabilitiesOf,
  guardRules,
  Guards,
  loadConfig,
  type EffectiveConfig,
  type Finding,
} from '../policy/index.ts'
import { describePlan } from '../sandbox/index.ts'
import { createEventLog, type EventLog } from '../store/index.ts'
import {
  claimWorkspace,
  continueInvocation,
  describeDriver,
  disposeWorkspace,
  enterInvocation,
  expireArchive,
  prepareWorkspace,
  updateInvocation,
} from '../workspace/index.ts'
import type { AgentIo, Sink } from './agentIo.ts'
import { writeContract } from './contractFile.ts'
import { controlPath, listenForControl, type ControlRequest } from './control.ts'
import { Observations } from './effective.ts'
import { doorFor } from './agentDoor.ts'
import { noteAgentCommits } from './inside.ts'
import { landWaiting } from './landings.ts'
import type { Job } from './job.ts'
import { LiveBoundary } from './liveBoundary.ts'
import { notCaptured } from './lateCapture.ts'
import { followChanges } from './liveCapture.ts'
import { OutputLog } from './output.ts'
import type { Parts } from './parts.ts'
import { resolveAgent } from './provider.ts'
import { mirror } from './reconcile.ts'
import { startTicks } from './processes.ts'
import { homeOf, sandboxRequest } from './request.ts'
import { watchForSigns } from './signs.ts'
import { prepareTrust } from './trust.ts'

export type Outcome = {
  readonly status: Exclude<DispatchStatus, 'starting' | 'running' | 'preflight_failed'>
  readonly exitCode: number | null
  readonly signal: NodeJS.Signals | null
  readonly error: string | null
}

type Options = {
  /** Aborted to end the dispatch now; the reason is the signal we were asked by. */
  readonly signal: AbortSignal
  /** By which signal the person asked for the end that came, if so; given the one that ended the command. */
  readonly wishedBy?: (signal: NodeJS.Signals | null) => NodeJS.Signals | null
  /** What the person at the other end sees, besides the record. */
  readonly sink?: Sink
  readonly io: AgentIo
  /** Called once the agent may run: from here on signals can be passed to it. */
  readonly onRunning?: (sandbox: RunningSandbox) => void
}

/**
 * Leads one dispatch from its workspace to its end. Whatever happens, the row becomes terminal, nothing is
 * left running, and what the agent wrote waits for review.
 */
export async function supervise(parts: Parts, job: Job, options: Options): Promise<Outcome> {
  const { layout } = parts
  const { id, contract, project } = job
  const seen = new Observations(contract)
  let log: EventLog | undefined
  let outcome: Outcome
  let workspace: Workspace | undefined
  await using claims = new AsyncDisposableStack()
  try {
    workspace =
      job.continues !== null
        ? await continueInvocation(layout, project.repoId, {
            id,
            continues: job.continues,
            name: job.name,
            runner: job.card.id,
            mode: options.io.terminal ? 'headed' : 'headless',
          })
        : job.entersInvocation
          ? await enterInvocation(layout, project.repoId, id, { access: 'rw', driver: job.driver })
          : await prepareWorkspace({
              id,
              project,
              strategy: contract.strategy,
              driver: job.driver,
              access: 'rw',
              layout,
              name: job.name,
              runner: job.card.id,
              mode: options.io.terminal ? 'headed' : 'headless',
              trusted: job.trusted,
            })
    claims.use(await claimWorkspace(layout, workspace))
    await writeContract(layout, project.repoId, id, contract)
    log = await createEventLog(layout.events(project.repoId, id))
    const recording = recorder(log, seen)
    const { note } = recording
    note({
      type: 'DispatchStarting',
      level: contract.level,
      command: [...job.command],
      roots: [...contract.roots],
    })
    note({
      type: 'WorkspaceReady',
      strategy: contract.strategy,
      detail: describeDriver(job.driver, contract.strategy),
    })
    for (const text of job.notes) note({ type: 'Note', text })
    outcome = await runAgent(parts, job, workspace, options, recording, seen)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    outcome = { status: 'failed', exitCode: null, signal: null, error: why }
  }
  await finish(parts, job, workspace, log, seen, outcome, claims)
  return outcome
}

type Note = (event: EventBody) => void

/** What an agent says of itself is logged up to this many events: the log must not be a way to fill the disk. */
const mostSaid = 20_000

/** Every event goes to the log, to what is remembered of the run and, once the agent runs, to its guards. */
function recorder(log: EventLog, seen: Observations) {
  let guards: Guards | undefined
  let said = 0
  const remember = (event: EventBody) => {
    seen.observe(event)
    guards?.observe(event)
  }
  const note: Note = (event) => {
    log.append(event)
    remember(event)
  }
  return {
    note,
    /** An event the agent's protocol told of. Counted and guarded also where it is no longer logged. */
    said: (event: EventBody) => {
      said++
      if (said <= mostSaid) return note(event)
      if (said === mostSaid + 1) note({ type: 'Note', text: 'further events of the agent are not logged' })
      remember(event)
    },
    watch: (given: Guards) => {
      guards = given
    },
  }
}

async function runAgent(
  parts: Parts,
  job: Job,
  workspace: Workspace,
  options: Options,
  { note, said, watch }: ReturnType<typeof recorder>,
  seen: Observations,
): Promise<Outcome> {
  const { layout, store, runtime } = parts
  const { id, project } = job
  const { io } = options
  const config = await loadConfig({ userConfigDir: parts.configDir, roots: job.contract.roots })
  const [door, host, trust] = await Promise.all([
    doorFor(job, workspace, config, note),
    parts.host(),
    prepareTrust(job, workspace.dir),
    ensurePrivateDir(homeOf(parts, job, workspace.dir)),
  ])
  await using _door = door
  const agent = resolveAgent(job.card, job.contract, host)
  const request = sandboxRequest(parts, job, workspace, io.terminal, trust, door)
  const plan = agent.plan(request)

  await using output = await OutputLog.create(layout.output(project.repoId, id))
  const roots = workspace.roots.map(({ target }) => target)
  const watching = watchForSigns(plan.request, (event) => {
    note(event)
    if (event.type === 'Violated') boundary.suspect(event.violation, roots)
  })
  await using sandbox = await agent.invoke(plan, io.sandbox)
  seen.driver = sandbox.driver
  note({ type: 'SandboxReady', driver: sandbox.driver, plan: describePlan(plan) })
  note({ type: 'SelfProbe', result: sandbox.probe })
  if (!sandbox.probe.ok) {
    const wrong = sandbox.probe.checks.filter((check) => !check.ok).map((check) => check.name)
    return {
      status: 'failed',
      exitCode: null,
      signal: null,
      error: `self-probe: not as declared (${wrong.join(', ')})`,
    }
  }

  let stopping: Finding | undefined
  const found = (finding: Finding) => {
    note(violated(finding.kind, finding.detail))
    if (!finding.stop || stopping !== undefined) return
    stopping = finding
    void sandbox.kill()
  }
  const start = guardRules(job.contract, config, job.contract.boundary)
  using guards = new Guards(start, found, () => boundary.waitsForPerson)
  const changed = (level: BoundaryLevel, latest: EffectiveConfig) => {
    guards.setRules(guardRules(job.contract, latest, level))
    void door?.deny(capabilitiesOf(level, latest).commands.deny).catch(() => {})
  }
  const authority = trust?.authority ?? null
  await using boundary = new LiveBoundary(parts, job, sandbox, note, seen, authority, changed)
  await boundary.start()
  door?.listen(boundary)
  watch(guards)
  let cancelledBy: string | null = null
  const end = (by: string) => {
    cancelledBy ??= by
    return sandbox.kill()
  }
  const handle = async (request: ControlRequest): Promise<void> => {
    if (request.op === 'kill') {
      note({ type: 'Note', text: `ended by ${request.by}` })
      await end(request.by)
    } else if (request.op === 'input') io.write(Buffer.from(request.data, 'base64'))
    else if (request.op === 'resize') io.resize(request)
    else if (request.op === 'boundary') await boundary.follow(request.by, request.why)
    else if (request.op === 'tell') note(request.event)
  }
  const control = await listenForControl(controlPath(runtime, id), handle)
  using _control = { [Symbol.dispose]: () => control.close() }

  const signs = await watching
  let isTold = false
  // A full disk costs the record of the output, never the run.
  const unkept = (reason: unknown) => {
    if (!isTold)
      note({
        type: 'Note',
        text: `output is not kept: ${reason instanceof Error ? reason.message : String(reason)}`,
      })
    isTold = true
  }
  const protocol = protocolReader(job.card)
  io.start(async (chunk, name) => {
    guards.alive()
    signs.read(chunk, name)
    if (name === 'stdout') for (const event of protocol?.read(chunk) ?? []) said(event)
    await output.append(chunk).catch((reason: unknown) => unkept(reason))
    return options.sink?.(chunk, name)
  })
  const startedAt = new Date().toISOString()
  const supervisorStartTicks = await startTicks(process.pid)
  store.dispatches.markRunning(id, { startedAt, supervisorPid: process.pid, supervisorStartTicks })

  const cancel = () => void end(String(options.signal.reason))
  if (options.signal.aborted) cancel()
  else options.signal.addEventListener('abort', cancel, { once: true })
  sandbox.release()
  note({ type: 'AgentStarted', pid: sandbox.pid })
  options.onRunning?.(sandbox)
  await updateInvocation(layout, project.repoId, id, { status: 'running' })
  await mirror(parts, project.repoId, id)
  let ended: SandboxEnd
  {
    await using _changes = followChanges(parts, workspace, note)
    ended = await sandbox.ended
  }
  options.signal.removeEventListener('abort', cancel)
  await io.drained()
  await signs.end()
  note({ type: 'Output', bytes: output.seen })
  if (output.truncated) note({ type: 'Note', text: 'output beyond the limit was not kept' })
  seen.ended(ended)
  for (const limit of ended.limits) note(violated(limit, `the ${limit} limit was reached`))
  note({ type: 'AgentEnded', exit_code: ended.exitCode, signal: ended.signal })
  const { exitCode, signal } = ended
  if (stopping !== undefined && cancelledBy === null) {
    const status = stopping.kind === 'inactivity' ? 'timeout' : 'failed'
    return { status, exitCode, signal, error: `${stopping.kind}: ${stopping.detail}` }
  }
  const by = cancelledBy ?? options.wishedBy?.(signal) ?? null
  return { ...judge(ended, by, job), exitCode, signal }
}

/** What became of it, and why, in words for whoever reads the record. */
function judge(
  { exitCode, signal, lost, limits, unstartable }: SandboxEnd,
  cancelledBy: string | null,
  { command, contract }: Job,
): Pick<Outcome, 'status' | 'error'> {
  if (limits.includes('timeout'))
    return { status: 'timeout', error: `stopped after ${contract.limits.timeout_s} s, its time limit` }
  if (cancelledBy !== null) return { status: 'cancelled', error: `cancelled by ${cancelledBy}` }
  if (limits.length > 0 && exitCode !== 0)
    return { status: 'failed', error: `ended after it reached its ${limits.join(' and ')} limit` }
  if (lost !== null) return { status: 'interrupted', error: `the sandbox was cut off: ${lost}` }
  if (exitCode === 0) return { status: 'completed', error: null }
  if (unstartable) {
    const why = exitCode === 127 ? 'no such command in the sandbox' : 'it is not executable'
    return { status: 'failed', error: `${command[0]}: ${why}` }
  }
  return { status: 'failed', error: signal === null ? null : `the command was ended by ${signal}` }
}

function violated(kind: string, detail: string): EventBody {
  return { type: 'Violated', violation: { kind, at: new Date().toISOString(), detail, certain: true } }
}

/** The last capture, the record and the tidying; each happens whatever became of the others. */
async function finish(
  parts: Parts,
  job: Job,
  workspace: Workspace | undefined,
  log: EventLog | undefined,
  seen: Observations,
  outcome: Outcome,
  claims: AsyncDisposableStack,
): Promise<void> {
  const { layout, store, changesets } = parts
  const { id, project } = job
  let error = outcome.error
  let changed = false
  if (workspace !== undefined && workspace.strategy !== 'none') {
    try {
      const capture = await changesets.capture(workspace, { final: true })
      changed = capture !== null
      if (capture)
        log?.append({ type: 'ChangesetCaptured', revision: capture.revision, files: capture.files })
    } catch (reason) {
      // What was written stays where it is: better a workspace too many than work lost.
      changed = true
      error = notCaptured(error, reason)
    }
  }
  if (workspace !== undefined) {
    const note = (text: string) => log?.append({ type: 'Note', text })
    if (await noteAgentCommits(parts, project.commonDir, workspace, note)) changed = true
  }
  if (job.continues !== null) changesets.endTurn(job.continues, error ?? 'the agent ended')
  log?.append({ type: 'DispatchEnded', status: outcome.status, error })
  await log?.close().catch((reason: unknown) => {
    error ??= `event log: ${reason instanceof Error ? reason.message : String(reason)}`
  })
  if (workspace !== undefined) {
    seen.diskMb = await seen.measureDisk(workspace.dir)
    await updateInvocation(layout, project.repoId, id, { status: outcome.status }).catch(() => {})
  }
  // Tidied before the row says it is over: whoever waits for the end finds nothing left.
  // A sandbox that somebody made beforehand is his to end.
  const isOwn = workspace?.strategy !== 'worktree' || (!job.entersInvocation && job.continues === null)
  if (workspace !== undefined && !changed && isOwn)
    await disposeWorkspace(workspace, { archive: false }).catch(() => {})
  if (workspace !== undefined) await mirror(parts, project.repoId, id)
  // Let go before the row says it is over: whoever waits for the end may land on these folders at once.
  await claims.disposeAsync()
  store.dispatches.finish(id, {
    status: outcome.status,
    exitCode: outcome.exitCode,
    error,
    effective: seen.effective(),
    endedAt: new Date().toISOString(),
    lastEventHash: log?.lastHash ?? null,
  })
  // Whoever was kept from landing by this agent has waited for this.
  await landWaiting(parts).catch(() => {})
  // Who only ever uses the command line has no host that stays to do it.
  await changesets.expire().catch(() => {})
  await expireArchive(layout).catch(() => {})
  // Only where the user set a size; whoever waits for this dispatch has been told by now.
  await store.retention.trim().catch(() => {})
}
