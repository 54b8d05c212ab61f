import { spawn } from 'node:child_process'
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { startOn } from '../../src/engine/sandbox/fixture.ts'
import type { HostFacts } from '../../src/engine/sandbox/index.ts'
import type { EscapeCase, Stage, Verdict } from './case.ts'
import { Standing } from './standing.ts'
import { makeWorld, type World } from './world.ts'

export type Judgement = {
  readonly id: string
  readonly verdict: Verdict | 'NOT_APPLICABLE'
  readonly why: string
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
  const wait = 'touch ~/now; n=0; while [ ! -e ~/done ] && [ $n -lt 1500 ]; do sleep 0.01; n=$((n+1)); done'
  // A sandbox in which nothing works blocks everything: these must, or the probe shows nothing.
  const works =
    'perl -e "use Socket; exit 0" </dev/null >/dev/null && sleep 0 && touch works && rm works || exit 9'
  return `${works}\npause=${pause}\n${settled}\n${stage.probe}\n${stage.live ? wait : ':'}\ntouch ~/ran\n`
}

type Attempted = {
  readonly ended: Promise<unknown>
  kill(): Promise<void> | void
  clear?: () => void
}

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
  if (stage.live) {
    while (!state.hasEnded && !(await exists(join(home, 'now')))) await pause(5)
    escaped = await stage.escaped()
    tried = (await stage.tried?.()) ?? true
    await world.ground.writeHome('done')
  }
  await ended
  clearTimeout(late)
  await stage.afterwards?.(guarded)
  if (!stage.live) {
    escaped = await stage.escaped()
    tried = (await stage.tried?.()) ?? true
  }
  running.clear?.()
  return { escaped, ran: tried && (await exists(join(home, 'ran'))) }
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
  return Promise.resolve({ ended, kill, clear: kill })
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
  const sandbox =
    standing === null ? (await startOn(ground, request, host)).sandbox : await standing.start(request)
  await stage.attach?.(sandbox, guarded)
  sandbox.release()
  return { ended: sandbox.ended, kill: () => sandbox.kill() }
}

/**
 * On a busy machine a probe may not have got to its attack when the oracle looks. Then nothing was shown, and
 * it is tried again with more time; a breakout is never tried again.
 */
export async function judge(escape: EscapeCase, host: HostFacts, stands = false): Promise<Judgement> {
  let judgement = await judgeOnce(escape, host, 0.3, stands)
  for (const pause of [1, 3]) {
    if (judgement.verdict !== 'INCONCLUSIVE') break
    judgement = await judgeOnce(escape, host, pause, stands)
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
  {
    await using world = await makeWorld(host)
    const stage = await escape.stage(world)
    const control = await attempt(world, stage, false, () =>
      stage.control === 'sandbox'
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
    startInSandbox(world, stage, pause, {}, true, standing),
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
