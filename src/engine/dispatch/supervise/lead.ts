import type { BoundaryLevel } from '../../../shared/boundary.ts'
import type { EventBody } from '../../../shared/events.ts'
import { syncDir } from '../../base/files.ts'
import type { Contract } from '../../base/contract.ts'
import type { RunningSandbox, SandboxEnd } from '../../base/sandbox.ts'
import type { Workspace } from '../../base/workspace.ts'
import { guardRules, Guards, type EffectiveConfig, type Finding } from '../../policy/index.ts'
import { describePlan, lesserView, whereElse } from '../../sandbox/index.ts'
import { createEventLog, type EventLog } from '../../store/index.ts'
import {
  claimTurn,
  claimWorkspace,
  describeDriver,
  lendObjects,
  syncInvocation,
  updateInvocation,
} from '../../workspace/index.ts'
import type { AgentIo, Sink } from './agentIo.ts'
import { anchorLog } from '../record/anchor.ts'
import { syncContract, writeContract } from '../prepare/contractFile.ts'
import { controlPath, listenForControl, type ControlHandler } from './control.ts'
import { Observations, termsOf } from '../record/effective.ts'
import { denyCommands, doorFor, furnishDoor } from './agentDoor.ts'
import { configPlaces, FollowedConfig } from '../boundary/followedConfig.ts'
import { takeHome } from '../prepare/home.ts'
import type { Job } from '../prepare/job.ts'
import { LiveBoundary } from '../boundary/liveBoundary.ts'
import { followChanges } from '../record/liveCapture.ts'
import { judge, likelyDetail, type Outcome } from './outcome.ts'
import { OutputLog } from './output.ts'
import type { Parts } from '../parts.ts'
import { resolveAgent } from '../prepare/provider.ts'
import { mirror } from '../recover/reconcile.ts'
import { Recorder } from '../record/recorder.ts'
import { ownStartTicks } from '../../base/processes.ts'
import { sandboxRequest, scopesInside } from '../prepare/request.ts'
import { watchForSigns } from './signs.ts'
import { isSpokenTo, speechOf } from './speech.ts'
import { prepareTrust } from '../prepare/trust.ts'
import { watchTurnedAway } from '../record/turnedAway.ts'
import type { Spares } from '../warm/spares.ts'
import { cutOffLandings } from '../landing/cutOffLandings.ts'
import { introduce, settle, workspaceFor } from '../prepare/workspaceFor.ts'

export type LeadOptions = {
  /** Aborted to end the dispatch now; the reason is the signal we were asked by. */
  readonly signal: AbortSignal
  /** By which signal the person asked for the end that came, if so; given the one that ended the command. */
  readonly wishedBy?: (signal: NodeJS.Signals | null) => NodeJS.Signals | null
  /** What the person at the other end sees, besides the record. */
  readonly sink?: Sink
  readonly io: AgentIo
  /** What was made before, the holder for the same io. */
  readonly spares?: Spares
  /** Called once the agent may run: from here on signals can be passed to it. */
  readonly onRunning?: (sandbox: RunningSandbox) => void
  /** Told what the person should know of the start and the checks could not. */
  readonly onNote?: (text: string) => void
  /** Told of everything that goes on record, when it does. */
  readonly onEvent?: (event: EventBody) => void
}

/** What is known of a dispatch on its way, for whoever brings it to its end. */
export class Course implements AsyncDisposable {
  readonly seen: Observations
  readonly recorder: Recorder
  readonly claims = new AsyncDisposableStack()
  workspace: Workspace | undefined
  log: EventLog | undefined

  constructor(contract: Contract, onEvent?: (event: EventBody) => void) {
    this.seen = new Observations(termsOf(contract))
    this.recorder = new Recorder(this.seen, onEvent)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.claims.disposeAsync()
  }
}

/** From the workspace to the agent's end. */
export async function lead(parts: Parts, job: Job, options: LeadOptions, course: Course): Promise<Outcome> {
  const { layout } = parts
  const { contract } = job
  const { recorder, seen, claims } = course
  const { note } = recorder
  // While the workspace is made: nothing of it depends on that.
  const looking = parts.hostNow()
  looking.catch(() => {})
  const following = FollowedConfig.open(configPlaces(parts.configDir, contract))
  await using _followed = endOf(following)
  if (job.continues !== null) claims.use(await claimTurn(layout, { repoId: job.project.repoId, id: job.id }))
  const workspace = await workspaceFor(parts, job, options.io.terminal)
  course.workspace = workspace
  claims.use(await claimWorkspace(layout, workspace, { cutOff: cutOffLandings(parts) }))
  note({
    type: 'DispatchStarting',
    ...termsOf(contract),
    command: [...job.command],
    roots: [...contract.roots],
  })
  note({
    type: 'WorkspaceReady',
    strategy: contract.strategy,
    detail: describeDriver(job.driver, contract.strategy),
    driver: job.driver,
  })
  for (const text of await settle(workspace, job)) note({ type: 'Note', text })
  const recording = writeRecord(parts, job, course)
  // Whoever needs them on disk asks again.
  recording.catch(() => {})
  try {
    return await runAgent(parts, job, workspace, options, { recorder, seen, recording, looking, following })
  } finally {
    await recording.catch(() => {})
  }
}

/** Writes down what must be known of a dispatch before it runs. The disk takes it meanwhile, all at once. */
async function writeRecord(
  parts: Parts,
  { id, contract, project, driver }: Job,
  course: Course,
): Promise<void> {
  const { layout, store } = parts
  const { repoId } = project
  const [log] = await Promise.all([
    createEventLog(layout.events(repoId, id), { synced: false }),
    writeContract(layout, repoId, id, { ...contract, driver }),
  ])
  course.log = log
  course.recorder.open(log)
  // The disk is the slowest of all that the agent has to wait for, and is waited for one time.
  await Promise.all([
    store.dispatches.sync(),
    syncInvocation(layout, repoId, id),
    syncContract(layout, repoId, id),
    // A full disk costs the record of what is said, never the run.
    log.flush().catch(() => {}),
    syncDir(layout.invocation(repoId, id)),
  ])
}

/** What was begun is not left to itself, whatever becomes of the rest: it is waited for and let go of. */
function endOf(begun: Promise<object>): AsyncDisposable {
  const settled = begun.catch(() => null)
  return {
    async [Symbol.asyncDispose]() {
      const held = await settled
      if (held === null) return
      if (Symbol.asyncDispose in held) await (held as AsyncDisposable)[Symbol.asyncDispose]()
      else if (Symbol.dispose in held) (held as Disposable)[Symbol.dispose]()
    },
  }
}

type Begun = {
  readonly recorder: Recorder
  readonly seen: Observations
  /** What must be known of a dispatch before it runs: written down, and on the disk. */
  readonly recording: Promise<unknown>
  /** The host as it is now. */
  readonly looking: ReturnType<Parts['hostNow']>
  /** The config as it is now, and word of its changes. */
  readonly following: Promise<FollowedConfig>
}

async function runAgent(
  parts: Parts,
  job: Job,
  workspace: Workspace,
  options: LeadOptions,
  { recorder, seen, recording, looking, following }: Begun,
): Promise<Outcome> {
  const { layout, store, runtime } = parts
  const { id, project } = job
  const { io } = options
  const { note } = recorder
  const opening = OutputLog.create(layout.output(project.repoId, id))
  await using _output = endOf(opening)
  const taking = takeHome(parts, job, workspace)
  await using _home = endOf(taking)
  const [door, host, trust, lent, home] = await Promise.all([
    doorFor(job, workspace, note, options.spares?.door),
    looking,
    prepareTrust(job, workspace.dir),
    job.contract.level === 1 ? lendObjects(layout, project, (text) => note({ type: 'Note', text })) : [],
    taking,
  ])
  await using _door = door
  if (home.note !== null) {
    note({ type: 'Note', text: home.note })
    options.onNote?.(home.note)
  }
  const agent = resolveAgent(job.card, job.contract, host)
  const request = sandboxRequest(parts, job, workspace, io.terminal, trust, door, lent, home.path)
  const plan = agent.plan(request)
  const begun = Promise.withResolvers<void>()
  const starting = agent.invoke(plan, io.sandbox, {
    spare: options.spares?.holder ?? null,
    onBegun: begun.resolve,
  })
  await using _starting = endOf(starting)
  await Promise.race([begun.promise, starting.catch(() => {})])
  // All else that the agent has to wait for happens beside the sandbox's start, and not before it: that would wait.
  const furnishing = furnishDoor(door, job, note)
  const introducing = introduce(plan.request.home, job, options.spares?.identity ?? null)
  await using _begun = endOf(Promise.allSettled([recording, furnishing, introducing]))
  // Whoever asks for something before there is anybody to do it waits.
  const handling = Promise.withResolvers<ControlHandler>()
  const listening = listenForControl(controlPath(runtime, id), async (asked) =>
    (await handling.promise)(asked),
  )
  await using _control = endOf(listening)
  const scopes = scopesInside(job.contract, plan.request.workspace)
  const watching = watchForSigns(plan, parts.configDir, note, () => boundary.writable)
  let stopping: Finding | undefined
  const kill = async () => (await starting).kill()
  const found = (finding: Finding) => {
    note(violated(finding.kind, finding.detail))
    if (!finding.stop || stopping !== undefined) return
    stopping = finding
    void kill()
  }
  const guardedBy = (config: EffectiveConfig) => guardRules(job.contract, config, job.contract.boundary)
  using guards = new Guards(guardedBy(job.config), found, () => boundary.waitsForPerson)
  const changed = (level: BoundaryLevel, latest: EffectiveConfig) => {
    guards.setRules(guardRules(job.contract, latest, level))
    void denyCommands(door, level, latest).catch(() => {})
  }
  const authority = trust?.authority ?? null
  await using boundary = new LiveBoundary(parts, job, starting, note, seen, authority, changed, scopes)
  const [output, followed, signs] = await Promise.all([opening, following, watching, listening])
  guards.setRules(guardedBy(followed.config))

  // All that can be had before the agent stands at its gate: from there on it waits for us.
  const description = describePlan(plan)
  const starts = boundary.look(followed)
  const supervisorStartTicks = await ownStartTicks()
  await Promise.all([furnishing, recording, introducing])
  await using sandbox = await starting
  seen.driver = sandbox.driver
  const { by: limitsBy } = plan.limits
  const held = Object.keys(limitsBy).length === 0 ? {} : { limits_by: limitsBy }
  note({ type: 'SandboxReady', driver: sandbox.driver, plan: description, ...held })
  // What the host mounted since the checks.
  for (const text of lesserView(plan)) if (!job.notes.includes(text)) note({ type: 'Note', text })
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
  await boundary.start(starts, followed)
  // Called off before it began, it never begins.
  if (options.signal.aborted)
    return {
      status: 'cancelled',
      exitCode: null,
      signal: 'SIGKILL',
      error: `cancelled by ${String(options.signal.reason)}`,
    }
  // Where nothing holds it to a boundary the guards hold all the same.
  if (starts === null) followed.follow((latest) => changed(job.contract.boundary, latest))
  sandbox.onDeniedWrite((path) => {
    if (path === null)
      return note({ type: 'Note', text: 'further paths that could not be written are not told' })
    signs.deniedWrite(path)
    boundary.writeDenied(path)
  })
  door?.listen(boundary)
  recorder.watch(guards)
  let cancelledBy: string | null = null
  const enough = new AbortController()
  const end = (by: string) => {
    cancelledBy ??= by
    enough.abort()
    return kill()
  }
  handling.resolve(async (asked) => {
    if (asked.op === 'kill') {
      note({ type: 'Note', text: `ended by ${asked.by}` })
      await end(asked.by)
    } else if (asked.op === 'input') {
      if (!isSpokenTo(job)) io.write(Buffer.from(asked.data, 'base64'))
    } else if (asked.op === 'resize') io.resize(asked)
    else if (asked.op === 'boundary') {
      await boundary.follow(asked.by, asked.why)
      // Who asked for it reads there what became of open files.
      await recorder.log?.flush().catch(() => {})
    } else if (asked.op === 'tell') note(asked.event)
  })
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
  const { cwd } = plan.request
  const { said } = recorder
  const { sink } = options
  using speech = speechOf(job, {
    io,
    cwd,
    canAsk: door !== null,
    said,
    guards,
    boundary,
    kill,
    sink,
  })
  io.start(async (chunk, name) => {
    guards.alive()
    signs.read(chunk, name)
    if (name === 'stdout') speech.read(chunk)
    await output.append(chunk).catch((reason: unknown) => unkept(reason))
    return name === 'stdout' && isSpokenTo(job) ? true : sink?.(chunk, name)
  })
  const startedAt = new Date().toISOString()
  store.dispatches.markRunning(id, { startedAt, supervisorPid: process.pid, supervisorStartTicks })
  const cancel = () => void end(String(options.signal.reason))
  options.signal.addEventListener('abort', cancel, { once: true })
  let ended: SandboxEnd
  {
    using _turnedAway = watchTurnedAway(sandbox, note, () => boundary.answersNames)
    sandbox.release()
    note({ type: 'AgentStarted', pid: sandbox.pid })
    speech.begin()
    options.onRunning?.(sandbox)
    await updateInvocation(layout, project.repoId, id, { status: 'running' })
    await mirror(parts, project.repoId, id)
    using _anchored = recorder.log === null ? null : anchorLog(store, id, recorder.log)
    await using _changes = followChanges(parts, workspace, note)
    ended = await sandbox.ended
  }
  // Who was stopped was stopped from speaking, too.
  if (ended.signal === null && stopping === undefined) await boundary.drain(enough.signal)
  options.signal.removeEventListener('abort', cancel)
  await io.drained()
  await signs.end(await introducing)
  note({ type: 'Output', bytes: output.seen })
  if (output.truncated) note({ type: 'Note', text: 'output beyond the limit was not kept' })
  seen.ended(ended)
  for (const limit of ended.limits) note(violated(limit, `the ${limit} limit was reached`))
  for (const limit of ended.likelyLimits) {
    note(violated(limit, likelyDetail(limit), false))
  }
  note({ type: 'AgentEnded', exit_code: ended.exitCode, signal: ended.signal })
  const { exitCode, signal } = ended
  if (stopping !== undefined && cancelledBy === null) {
    const status = stopping.kind === 'inactivity' ? 'timeout' : 'failed'
    return { status, exitCode, signal, error: `${stopping.kind}: ${stopping.detail}` }
  }
  const by = cancelledBy ?? options.wishedBy?.(signal) ?? null
  const elsewhere = ended.unstartable ? await whereElse(plan.request, await parts.host()) : null
  const verdict = await speech.judged(judge(ended, by, job, elsewhere))
  // One that we had to send away after its work was done has no code of its own.
  return { ...verdict, exitCode: verdict.status === 'completed' ? 0 : exitCode, signal }
}

function violated(kind: string, detail: string, certain = true): EventBody {
  return { type: 'Violated', violation: { kind, at: new Date().toISOString(), detail, certain } }
}
