import { openSync, closeSync, constants } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { ReadStream } from 'node:tty'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { SandboxRequest } from '../../base/sandbox.ts'
import { startSandbox } from './start.ts'
import { asItIs, makeGround, startOn, type Ground } from '../fixture.ts'
import { SpareHolder } from './holderProcess.ts'
import { detectHost, type HostFacts } from '../host/host.ts'
import { planSandbox } from '../plan/plan.ts'

const require = createRequire(import.meta.url)
const native = (
  require('@lydell/node-pty/requireBinary.js') as {
    requireBinary(file: string): {
      open(columns: number, rows: number): { master: number; pty: string; slave: number }
    }
  }
).requireBinary('pty.node')

let scope: AsyncDisposableStack
let ground: Ground
let host: HostFacts
beforeEach(async () => {
  scope = new AsyncDisposableStack()
  ground = scope.use(await makeGround())
  host = await detectHost(ground.dataDir)
})
afterEach(() => scope.disposeAsync())

const exists = (pid: number | undefined) => {
  try {
    return process.kill(pid ?? 0, 0)
  } catch {
    return false
  }
}

/** Runs a command on a terminal, with that spare; tells what was printed. */
async function runOn(
  spare: SpareHolder | null,
  command: readonly [string, ...string[]],
  {
    changes = {},
    isStaged = false,
    on = host,
  }: { changes?: Partial<SandboxRequest>; isStaged?: boolean; on?: HostFacts } = {},
) {
  const pair = native.open(80, 24)
  const slave = openSync(pair.pty, constants.O_RDWR | constants.O_NOCTTY)
  closeSync(pair.slave)
  const stream = new ReadStream(pair.master)
  let screen = ''
  stream.on('data', (chunk) => (screen += chunk.toString()))
  stream.on('error', () => {})
  const io = { stdin: slave, stdout: slave, stderr: slave }
  if (isStaged) {
    await spare?.stage(host, ground.dataDir, join(ground.folder, 'stage'), io)
    await expect.poll(() => spare?.isStaged, { timeout: 5000 }).toBe(true)
  }
  const plan = planSandbox(ground.request(command, { terminal: true, ...changes }), asItIs(on))
  await using sandbox = await startSandbox(plan, io, { spare })
  closeSync(slave)
  const { pid, probe } = sandbox
  sandbox.release()
  const { exitCode } = await sandbox.ended
  stream.destroy()
  return { pid, probe, exitCode, screen }
}

test('a spare becomes a sandbox that is all that was declared, and can be taken once', async (context) => {
  if (host.etcLayer === null) return context.skip('no layer over /etc on this host')
  using spare = new SpareHolder(host, ground.dataDir)
  await expect.poll(() => spare.isReady).toBe(true)
  const first = await runOn(spare, ['sh', '-c', 'tty; echo made >new.txt; exit 7'])
  expect(first).toMatchObject({ pid: spare.pid, exitCode: 7, probe: { ok: true } })
  expect(first.screen).toMatch(/^\/dev\//)
  const second = await runOn(spare, ['true'])
  expect(second).toMatchObject({ exitCode: 0, probe: { ok: true } })
  expect(second.pid).not.toBe(spare.pid)
})

test('a spare that does not know what the host mounted since is not used, and ends', async () => {
  let mounts = 'before'
  using spare = new SpareHolder(host, ground.dataDir, () => mounts)
  await expect.poll(() => spare.isReady).toBe(true)
  mounts = 'after'
  const outcome = await runOn(spare, ['true'])
  expect(outcome).toMatchObject({ exitCode: 0, probe: { ok: true } })
  expect(outcome.pid).not.toBe(spare.pid)
  await expect.poll(() => exists(spare.pid)).toBe(false)
})

/** What is mounted where, of which kind and with which flags, as a process inside sees it. */
const mountsInside = (screen: string) =>
  screen
    .split('\r\n')
    .filter((line) => line.includes(' - '))
    .map((line) => {
      const [, , , , target, flags] = line.split(' ')
      return `${target} ${flags} ${line.split(' - ')[1]?.split(' ')[0]}`
    })
    .sort()

const environments = {
  'of names a shell has': { PLAIN: "it's $HOME\n`id`", EMPTY: '' },
  'of names a shell takes for its own': { SECONDS: '7', SHLVL: '5', code: 'red', nl: 'x', given: 'y' },
  'of names a shell cannot have': { 'ODD-NAME': "it's $HOME", 'npm_config_//host/:token': 'x\ny' },
}
test.for(Object.entries(environments))(
  'a sandbox that stood before there was a dispatch, with an environment %s, is the same as one made for it',
  async ([, env], context) => {
    if (host.etcLayer === null) return context.skip('no layer over /etc on this host')
    await writeFile(join(ground.root, 'secret.txt'), 'hidden')
    const show =
      'cat /proc/self/mountinfo; id; pwd; tty; ls -A / /home /tmp; cat secret.txt; echo $$; sort -z /proc/$$/environ | grep -zv "^SHLVL=[01]$" | tr "\\0" "\\t"'
    const changes = { hide: ['secret.txt'], env }
    const fresh = await runOn(null, ['sh', '-c', show], { changes })
    using spare = new SpareHolder(host, ground.dataDir)
    const staged = await runOn(spare, ['sh', '-c', show], { changes, isStaged: true })
    expect(staged).toMatchObject({ pid: spare.pid, exitCode: 0, probe: { ok: true } })
    expect(staged.probe).toEqual(fresh.probe)
    expect(mountsInside(staged.screen)).toEqual(mountsInside(fresh.screen))
    const rest = (screen: string) => screen.split('\r\n').filter((line) => !line.includes(' - '))
    expect(rest(staged.screen)).toEqual(rest(fresh.screen))
    expect(staged.screen).not.toContain('hidden')
    // A shell keeps what it takes for its own.
    for (const [name, value] of Object.entries(env))
      if (name !== 'SHLVL') expect(staged.screen).toContain(`${name}=${value.replaceAll('\n', '\r\n')}\t`)
  },
)

test('a sandbox that stood before is not used for a plan it cannot become', async (context) => {
  if (host.etcLayer === null) return context.skip('no layer over /etc on this host')
  using spare = new SpareHolder(host, ground.dataDir)
  const grants = [join(ground.folder, 'data')]
  const outcome = await runOn(spare, ['true'], { changes: { grants, secretDirs: [] }, isStaged: true })
  expect(outcome).toMatchObject({ exitCode: 0, probe: { ok: true } })
  expect(outcome.pid).not.toBe(spare.pid)
  await expect.poll(() => exists(spare.pid)).toBe(false)
})

test.for([
  ['a sandbox that stood before', {}],
  ['one made for it', {}],
  ['one with a limit that no control group holds', { limits: { pids: 200 } }],
] as const)(
  'of what the agent is given the loader sees nothing before the agent is: %s',
  async ([kind, changes], context) => {
    if (host.etcLayer === null) return context.skip('no layer over /etc on this host')
    // Whatever is started under it, as with a library that LD_PRELOAD names, leaves a file.
    const env = { LD_DEBUG: 'files', LD_DEBUG_OUTPUT: '/home/agent/loaded' }
    const on: HostFacts =
      'limits' in changes
        ? { ...host, uid: 1000, cgroups: { kind: 'none', why: 'as on many hosts' }, mostProcesses: null }
        : host
    const isStaged = kind === 'a sandbox that stood before'
    using spare = isStaged ? new SpareHolder(host, ground.dataDir) : null
    const ended = await runOn(spare, ['cat', '/dev/null'], { changes: { ...changes, env }, isStaged, on })
    expect({ ...ended.probe, checks: ended.probe.checks.filter(({ ok }) => !ok) }).toEqual({
      ok: true,
      checks: [],
    })
    if (isStaged) expect(ended.pid).toBe(spare?.pid)
    const files = (await readdir(ground.home)).filter((name) => name.startsWith('loaded'))
    const texts = await Promise.all(files.map((name) => readFile(join(ground.home, name), 'utf8')))
    expect(texts.map((text) => /transferring control: (\S+)/.exec(text)?.[1])).toEqual(['cat'])
  },
)

test('a spare that nobody needs ends with whoever lets go of it', async () => {
  let pid: number | undefined
  {
    using spare = new SpareHolder(host, ground.dataDir)
    pid = spare.pid
    expect(exists(pid)).toBe(true)
  }
  await expect.poll(() => exists(pid)).toBe(false)
})

test('what a command says reaches it as it stands, whatever a shell would make of it', async () => {
  const odd = 'it\'s "$HOME" `id` \\ $(id)\n; exit 3 # *'
  const { sandbox, finish } = await startOn(ground, ground.request(['printf', '%s', odd]), host)
  sandbox.release()
  expect(await finish()).toMatchObject({ exitCode: 0, stdout: odd })
})
