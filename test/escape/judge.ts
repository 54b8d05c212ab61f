import { spawn } from 'node:child_process'
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import type { SandboxRequest } from '../../src/engine/base/sandbox.ts'
import { pipeIo, type Sink } from '../../src/engine/dispatch/supervise/agentIo.ts'
import { asItIs, startOn } from '../../src/engine/sandbox/fixture.ts'
import { planSandbox, startSandbox, type HostFacts } from '../../src/engine/sandbox/index.ts'
import type { EscapeCase, Running, Stage, Verdict } from './case.ts'
import { prepared } from './prepared.ts'
import { Standing } from './standing.ts'
import type { Order } from './supervisor.ts'
import { makeWorld, type World } from './world.ts'

export type Judgement = {
  readonly id: string
  readonly verdict: Verdict | 'NOT_APPLICABLE'
  readonly why: string
  /** Not run, as nobody who is root was there to prepare it. */
  readonly isUnprepared?: true
  /** In a sandbox that stood before, as most dispatches are. */
  readonly staged?: boolean
}

const patienceMs = 20_000

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Waits until an attacker in the background has made its attempt, or was ended for it. */
const settled = `settled() {
  n=0
  while [ ! -e ~/tried ] && [ $n -lt 1000 ]; do
    read -r pid name state rest 2>/dev/null <"/proc/$1/stat" || break
    [ "$state" != Z ] || break
    sleep 0.01; n=$((n+1))
  done
}`

/** The probe with what tells us that it got as far as its attack, and to its end. */
function scriptOf(stage: Stage, pause: number): string {
  // What is to be ended from outside must not end by itself before.
  const rounds = stage.cutOff === undefined ? 1500 : 6000
  const wait = `touch ~/now; n=0; while [ ! -e ~/done ] && [ $n -lt ${rounds} ]; do sleep 0.01; n=$((n+1)); done`
  // A sandbox in which nothing works blocks everything: these must, or the probe shows nothing.
  const works =
    'perl -e "use Socket; exit 0" </dev/null >/dev/null && sleep 0 && touch works && rm works || exit 9'
  const end = stage.live === true || stage.cutOff !== undefined ? wait : ':'
  // In words that we know, for us to read whether a program of it was missing.
  return `export LC_ALL=C
${works}
pause=${pause}
${settled}
{
${stage.probe}
} 2>>~/said
${end}
touch ~/ran
`
}

/** A program that is not there attacks nothing: what a shell says of it. */
const missing = /: (?:command )?not found$/m

type Attempted = Running & { clear?: () => void }

/** Runs it, asks the oracle at the right moment, and says whether the probe ran to its end. */
async function attempt(
  world: World,
  stage: Stage,
  guarded: boolean,
  start: () => Promise<Attempted>,
): Promise<{ readonly escaped: boolean; readonly ran: boolean }> {
  let tried = true
  const { home } = world.ground
  const running = await start()
  const state = { hasEnded: false }
  const ended = running.ended.then(() => (state.hasEnded = true))
  const late = setTimeout(() => void running.kill(), stage.patienceMs ?? patienceMs)
  let escaped = false
  if (stage.live === true || stage.cutOff !== undefined) {
    while (!state.hasEnded && !(await exists(join(home, 'now')))) await pause(5)
  }
  if (stage.live) {
    escaped = await stage.escaped()
    tried = (await stage.tried?.()) ?? true
    await world.ground.writeHome('done')
  }
  if (stage.cutOff !== undefined && !state.hasEnded) {
    tried = (await stage.tried?.()) ?? true
    await stage.cutOff(running, guarded)
  }
  await ended
  clearTimeout(late)
  await stage.afterwards?.(guarded)
  if (!stage.live) {
    escaped = await stage.escaped()
    // What was cut off has been looked at before: nothing of it need be there any more.
    if (stage.cutOff === undefined) tried = (await stage.tried?.()) ?? true
  }
  running.clear?.()
  const end = stage.cutOff === undefined ? 'ran' : 'now'
  const isWhole = !missing.test(await world.said())
  return { escaped, ran: tried && isWhole && (await exists(join(home, end))) }
}

function startOnHost(world: World, stage: Stage, pause: number) {
  const child = spawn('sh', ['-c', scriptOf(stage, pause), 'sh', world.mark], {
    cwd: world.ground.root,
    env: { ...process.env, HOME: world.ground.home },
    stdio: 'ignore',
    detached: true,
  })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const kill = () => {
    try {
      process.kill(-(child.pid ?? 0), 'SIGKILL')
    } catch {
      // Nobody of it is left.
    }
  }
  // What the control let loose or stopped on the host has no sandbox to end with.
  return Promise.resolve({ pid: child.pid ?? 0, ended, kill, clear: kill })
}

/** By a process of its own, which starts either the sandbox or, for the control, a shell. */
async function startSupervised(world: World, stage: Stage, pause: number, guarded: boolean) {
  const { ground, mark } = world
  const command = ['sh', '-c', scriptOf(stage, pause), 'sh', mark] as const
  const order: Order = {
    dataDir: ground.dataDir,
    request: ground.request(command, stage.request),
    isSandboxed: guarded,
  }
  // What it is to do goes through a pipe: in its command line the mark would make it a part of the probe.
  const child = spawn(process.execPath, [...process.execArgv, join(import.meta.dirname, 'supervisor.ts')], {
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  child.stdin.end(JSON.stringify(order))
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  return { pid: child.pid ?? 0, ended, kill: () => void child.kill('SIGKILL') }
}

async function startInSandbox(
  world: World,
  stage: Stage,
  pause: number,
  extra: Stage['request'],
  guarded: boolean,
  standing: Standing | null = null,
) {
  const { ground, host, mark } = world
  const request = ground.request(['sh', '-c', scriptOf(stage, pause), 'sh', mark], {
    ...stage.request,
    ...extra,
  })
  const record = guarded ? stage.record : undefined
  const started =
    standing === null
      ? record === undefined
        ? { ...(await startOn(ground, request, host)), drained: undefined }
        : await startRecorded(world, request, record)
      : await standing.start(request, record)
  const { sandbox, drained } = started
  try {
    await stage.attach?.(sandbox, guarded)
    sandbox.release()
  } catch (error) {
    // The self-probe may have found what is to be attacked: then nobody waits for its end.
    await sandbox.kill()
    throw error
  }
  const ended = sandbox.ended.then(() => drained?.())
  return { pid: sandbox.pid, ended, kill: () => sandbox.kill() }
}

/** As a dispatch without a terminal is started: what it prints comes through pipes. */
async function startRecorded(world: World, request: SandboxRequest, record: Sink) {
  const io = await pipeIo(world.ground.folder)
  world.defer(() => io[Symbol.dispose]())
  const sandbox = await startSandbox(planSandbox(request, asItIs(world.host)), io.sandbox)
  io.start(record)
  return { sandbox, drained: () => io.drained() }
}

/**
 * On a busy machine a probe may not have got to its attack when the oracle looks. Then nothing was shown, and
 * it is tried again with more time; a breakout is never tried again.
 */
export async function judge(escape: EscapeCase, host: HostFacts, stands = false): Promise<Judgement> {
  // What could not even be set up shows nothing, and must not keep the cases beside it from being judged.
  const once = (pause: number) =>
    judgeOnce(escape, host, pause, stands).catch((error: unknown): Judgement => {
      const why = error instanceof Error ? error.message : String(error)
      return { id: escape.id, verdict: 'INCONCLUSIVE', why: `it could not be staged: ${why}` }
    })
  let judgement = await once(0.3)
  for (const pause of [1, 3]) {
    if (judgement.verdict !== 'INCONCLUSIVE') break
    judgement = await once(pause)
  }
  return judgement
}

async function judgeOnce(
  escape: EscapeCase,
  host: HostFacts,
  pause: number,
  stands: boolean,
): Promise<Judgement> {
  const { id } = escape
  if (escape.only !== undefined && (escape.only === 'root') !== (host.uid === 0)) {
    return { id, verdict: 'NOT_APPLICABLE', why: `without a guard only ${escape.only} could do this` }
  }
  if (escape.isPrepared === true && host.uid !== 0 && prepared === null) {
    return { id, verdict: 'NOT_APPLICABLE', why: 'only root can prepare it', isUnprepared: true }
  }
  {
    await using world = await makeWorld(host)
    const stage = await escape.stage(world)
    const control = await attempt(world, stage, false, () =>
      stage.isSupervised === true
        ? startSupervised(world, stage, pause, false)
        : stage.control === 'sandbox'
          ? startInSandbox(world, stage, pause, stage.controlRequest, false)
          : startOnHost(world, stage, pause),
    )
    if (!control.ran) return { id, verdict: 'INCONCLUSIVE', why: 'the control did not run to its end' }
    if (!control.escaped) return { id, verdict: 'INCONCLUSIVE', why: 'the control did not break out' }
  }
  await using world = await makeWorld(host)
  using standing = stands ? await Standing.make(world, host) : null
  const stage = await escape.stage(world)
  const result = await attempt(world, stage, true, () =>
    stage.isSupervised === true
      ? startSupervised(world, stage, pause, true)
      : startInSandbox(world, stage, pause, {}, true, standing),
  )
  return { ...verdictOn(escape, result), ...(standing?.isUsed === true ? { staged: true } : {}) }
}

function verdictOn(
  escape: EscapeCase,
  result: { readonly escaped: boolean; readonly ran: boolean },
): Judgement {
  const { id } = escape
  if (!result.ran) return { id, verdict: 'INCONCLUSIVE', why: 'the probe did not run to its end' }
  if (escape.claim === 'blocked') {
    return result.escaped
      ? { id, verdict: 'BREAKOUT', why: 'the oracle saw it' }
      : { id, verdict: 'BLOCKED', why: escape.guard }
  }
  if (!result.escaped) return { id, verdict: 'INCONCLUSIVE', why: 'said to be possible, and was not' }
  return {
    id,
    verdict: escape.claim === 'allowed' ? 'ALLOWED_AS_DESIGNED' : 'NOT_CLAIMED',
    why: escape.guard,
  }
}
