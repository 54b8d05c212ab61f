import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { readdir, readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { childrenOf } from '../../src/engine/sandbox/holder/chain.ts'
import { makeGround, type Ground } from '../../src/engine/sandbox/fixture.ts'

/** Every process of this machine whose command line or working directory names the ground. */
async function processesOf(ground: Ground): Promise<readonly string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const lines = await Promise.all(
    pids.map(async (pid) => {
      const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
      return command.includes(ground.marker) ? `${pid} ${command.replaceAll('\0', ' ').slice(0, 200)}` : ''
    }),
  )
  return lines.filter(Boolean)
}

/** A supervisor in a process of its own, which can be killed. */
const supervisor = `
const { makeGround } = await import(process.argv[1] + '/fixture.ts')
const { detectHost } = await import(process.argv[1] + '/host/host.ts')
const { planSandbox } = await import(process.argv[1] + '/plan/plan.ts')
const { startSandbox } = await import(process.argv[1] + '/holder/start.ts')
const { request } = JSON.parse(process.argv[2])
const sandbox = await startSandbox(planSandbox(request, await detectHost(process.argv[3])), { stdin: 'ignore', stdout: 1, stderr: 2 })
sandbox.release()
console.log('running ' + sandbox.pid)
await sandbox.ended
console.log('ended')
`

async function startSupervisor(ground: Ground, level: 0 | 1) {
  // Daemons that left their session, their parent and their terminal: what outlives a careless sandbox.
  const script = `for i in 1 2 3; do (setsid sh -c 'sleep 1000; : ${ground.marker}' >/dev/null 2>&1 &) ; done; touch ~/up; sleep 1000; : ${ground.marker}`
  const request = ground.request(['sh', '-c', script], {
    level,
    network: level === 0 ? 'host' : 'none',
    ...(level === 0 ? { env: { HOME: ground.home } } : {}),
  })
  const child = spawn(
    process.execPath,
    [
      '--disable-warning=ExperimentalWarning',
      '--input-type=module',
      '-e',
      supervisor,
      join(import.meta.dirname, '../../src/engine/sandbox'),
      JSON.stringify({ request }),
      ground.dataDir,
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  const pid = await new Promise<number>((resolve) => {
    child.stdout.on('data', (chunk: Buffer) => {
      const found = /running (\d+)/.exec(chunk.toString())
      if (found) resolve(Number(found[1]))
    })
  })
  await ground.waitForHome('up')
  return { child, pid }
}

type Victim =
  | 'the supervisor'
  | 'unshare'
  | 'the holder'
  | 'who takes orders'
  | 'bubblewrap'
  | "bubblewrap's inner process"

async function findVictim(victim: Victim, supervisorPid: number, pid: number): Promise<number> {
  if (victim === 'the supervisor') return supervisorPid
  if (victim === 'unshare') return pid
  const [holder = 0] = childrenOf(pid)
  if (victim === 'the holder') return holder
  if (victim === 'who takes orders') return childrenOf(childrenOf(holder)[0] ?? 0)[0] ?? 0
  const bubblewrap = childrenOf(holder).at(-1) ?? 0
  if (victim === 'bubblewrap') return bubblewrap
  return childrenOf(bubblewrap)[0] ?? 0
}

const cases: readonly (readonly [Victim, 0 | 1])[] = [
  ['the supervisor', 1],
  ['unshare', 1],
  ['the holder', 1],
  ['who takes orders', 1],
  ['who takes orders', 0],
  ['bubblewrap', 1],
  ["bubblewrap's inner process", 1],
  ['the supervisor', 0],
  ['the holder', 0],
]

test.each(cases)('kill -9 of %s at level %i leaves no process and no mount behind', async (victim, level) => {
  await using ground = await makeGround()
  const { child, pid } = await startSupervisor(ground, level)
  expect((await processesOf(ground)).length).toBeGreaterThan(4)
  process.kill(await findVictim(victim, child.pid ?? 0, pid), 'SIGKILL')
  await expect
    .poll(async () => (await processesOf(ground)).filter((line) => !line.startsWith(`${child.pid} `)), {
      timeout: 3000,
      interval: 5,
    })
    .toEqual([])
  child.kill('SIGKILL')
  expect(await readFile('/proc/self/mountinfo', 'utf8')).not.toContain(ground.folder)
})
