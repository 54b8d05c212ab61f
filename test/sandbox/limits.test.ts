import { closeSync, openSync } from 'node:fs'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Limits } from '../../src/shared/spec.ts'
import { lookAtHost, makeGround, runIn, startOn } from '../../src/engine/sandbox/fixture.ts'
import { cgroupName } from '../../src/engine/sandbox/limits/cgroups.ts'
import type { HostFacts } from '../../src/engine/sandbox/host/host.ts'
import { planSandbox } from '../../src/engine/sandbox/plan/plan.ts'
import { startSandbox } from '../../src/engine/sandbox/holder/start.ts'

let host: HostFacts
beforeAll(() => lookAtHost((found) => (host = found)))

async function runLimited(script: string, limits: Limits, facts = host) {
  await using ground = await makeGround()
  return await runIn(ground, facts, script, { limits })
}

const hasCgroup = (name: 'memory' | 'cpu' | 'pids') =>
  host.cgroups.kind === 'systemd' ||
  (host.cgroups.kind !== 'none' && host.cgroups.parents[name] !== undefined)

const withoutCgroups = (): HostFacts => ({ ...host, cgroups: { kind: 'none', why: 'none for this test' } })

describe('a limit that is run into', () => {
  test('is told apart as timeout, and ends what ignores SIGTERM too', async () => {
    const outcome = await runLimited("trap '' TERM; while :; do sleep 0.05; done", { timeout_s: 0.2 })
    expect(outcome.limits).toEqual(['timeout'])
    expect(outcome.signal).toBe('SIGKILL')
  })

  test('is told apart as disk', async () => {
    const outcome = await runLimited('dd if=/dev/zero of=big bs=1M count=64 2>/dev/null; sleep 20', {
      disk_mb: 8,
    })
    expect(outcome.limits).toEqual(['disk'])
  })

  test('is told apart as disk where an agent fills its home instead of the workspace', async () => {
    const outcome = await runLimited('head -c 64M /dev/zero >~/big; sleep 20', { disk_mb: 8 })
    expect(outcome.limits).toEqual(['disk'])
  })

  test('says of files without a name, and of many empty ones, how much they were', async () => {
    const [nameless, empty] = await Promise.all([
      runLimited('exec 5>u; rm u; head -c 64M /dev/zero >&5; sleep 20', { disk_mb: 8 }),
      runLimited('i=0; while :; do i=$((i+1)); : >e$i; done', { disk_mb: 2 }),
    ])
    expect([nameless.limits, empty.limits]).toEqual([['disk'], ['disk']])
    expect(nameless.resources.disk_mb).toBeGreaterThan(8)
    expect(empty.resources.disk_mb).toBeGreaterThan(2)
  })

  test('of processes is of as many as the agent has, itself among them, and not one more', async (context) => {
    if (!hasCgroup('pids') && host.uid === 0) return context.skip('nothing here limits processes')
    const count = 'for (;;) { my $p = fork; last if !defined $p; $n++; if (!$p) { sleep 600 } } print $n + 1'
    const outcome = await runLimited(`exec perl -e '${count}; kill 9, -1'`, { pids: 20 })
    expect(outcome.stdout).toBe('20')
  })

  test('is not the disk limit where a kept home was that large before', async () => {
    await using ground = await makeGround()
    await writeFile(join(ground.home, 'kept'), Buffer.alloc(16 * 1024 * 1024, 1))
    const outcome = await runIn(ground, host, 'echo new >~/new; sleep 0.5', { limits: { disk_mb: 8 } })
    expect(outcome).toMatchObject({ exitCode: 0, limits: [] })
  })

  test('is not the disk limit where a sparse file only looks large', async () => {
    const outcome = await runLimited('truncate -s 1T sparse && sleep 0.5', { disk_mb: 8 })
    expect(outcome).toMatchObject({ exitCode: 0, limits: [] })
  })

  test('is told apart as memory', async ({ skip }) => {
    skip(!hasCgroup('memory'), 'no control group for memory here')
    const outcome = await runLimited(`node -e 'const a = []; for (;;) a.push(Buffer.alloc(1e7, 1))'`, {
      memory_mb: 128,
    })
    expect(outcome.limits).toEqual(['memory'])
    expect(outcome.exitCode).not.toBe(0)
    expect(outcome.resources.max_rss_mb).toBeGreaterThan(100)
    expect(outcome.resources.max_rss_mb).toBeLessThanOrEqual(128)
  })

  const manyProcesses =
    'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.4 & done; wait'

  test('is told apart as pids', async ({ skip }) => {
    skip(!hasCgroup('pids'), 'no control group for processes here')
    const outcome = await runLimited(manyProcesses, { pids: 8 })
    expect(outcome.limits).toEqual(['pids'])
    expect(outcome.stderr).toMatch(/fork/i)
  })

  // Each can be seen at work only on a host that has it: the report of a run says which one it was.
  test.for(['systemd', 'v2', 'v1'] as const)(
    'is held for real by control groups: %s',
    async (kind, { skip }) => {
      const { cgroups } = host
      skip(cgroups.kind !== kind, `this host keeps limits by ${cgroups.kind}, and so do we`)
      skip(!hasCgroup('pids'), 'no control group for processes here')
      expect((await runLimited(manyProcesses, { pids: 8 })).limits).toEqual(['pids'])
    },
  )

  test('is told as likely of an ordinary user whose program copes with it', async ({ skip }) => {
    skip(host.uid === 0, 'the kernel exempts root')
    const copes =
      "perl -e 'for (1 .. 100) { $child = fork; if (defined $child && !$child) { select undef, undef, undef, 0.1; exit } } select undef, undef, undef, 0.1'"
    expect(await runLimited(copes, { pids: 20 }, withoutCgroups())).toMatchObject({
      exitCode: 0,
      likelyLimits: ['pids'],
    })
  })

  test('holds for processes of an ordinary user without any control group, and is refused to root', async () => {
    const limited = runLimited(manyProcesses, { pids: 8 }, withoutCgroups())
    if (host.uid === 0) await expect(limited).rejects.toThrow('limit pids: none for this test')
    else expect((await limited).stderr).toMatch(/fork/i)
  })
})

test.for(['rw', 'ro'] as const)(
  'the smallest limits that preflight lets through are enough to start in: %s',
  async (files, { skip }) => {
    skip(!hasCgroup('pids') || !hasCgroup('memory'), 'no control groups here')
    await using ground = await makeGround()
    for (const limits of [{ pids: 4 }, { memory_mb: 4 }]) {
      expect(await runIn(ground, host, 'exit 3', { limits, files })).toMatchObject({
        exitCode: 3,
        limits: [],
      })
    }
  },
)

test('a limit that keeps the probe from its work is told as the cause, and not a guard that is missing', async ({
  skip,
}) => {
  skip(host.cgroups.kind !== 'v1' && host.cgroups.kind !== 'v2', 'no control groups of our own here')
  await using ground = await makeGround()
  // Bash tries again for 15 seconds.
  const facts = { ...host, inheritsDescriptors: false, tools: { ...host.tools, bash: null } }
  const plan = planSandbox(ground.request(['true'], { limits: { pids: 9 } }), facts)
  const { cgroup } = plan.limits
  if (cgroup === null) return skip('no control group for processes here')
  const settings = cgroup.settings.map(({ file }) => ({ file, value: '4' }))
  const limits = { ...plan.limits, cgroup: { ...cgroup, settings } }
  const output = openSync('/dev/null', 'w')
  const io = { stdin: 'ignore', stdout: output, stderr: output } as const
  await expect(startSandbox({ ...plan, limits }, io)).rejects.toThrow('the pids limit: too small')
  closeSync(output)
})

test('a CPU limit that is an affinity mask cannot be widened from inside', async () => {
  const outcome = await runLimited('nproc; taskset -p ffff $$ 2>&1 >/dev/null', { cpus: 1 }, withoutCgroups())
  expect(outcome.stdout).toMatch(/^1\n.*not permitted/)
})

test('a limit the host cannot enforce fails before anything starts', async () => {
  await using ground = await makeGround()
  const request = ground.request(['true'], { limits: { memory_mb: 100 } })
  expect(() => planSandbox(request, withoutCgroups())).toThrow('limit memory_mb: none for this test')
})

test('the control groups of a sandbox are gone after it', async ({ skip }) => {
  skip(!hasCgroup('memory') || host.cgroups.kind === 'systemd', 'no control groups of our own here')
  await using ground = await makeGround()
  const limits = { memory_mb: 100, pids: 50, cpus: 1.5 }
  const { sandbox, finish } = await startOn(ground, ground.request(['true'], { limits }), host)
  const own = cgroupName(ground.request(['true']).id)
  if (host.cgroups.kind !== 'v1' && host.cgroups.kind !== 'v2') return
  const parents = Object.values(host.cgroups.parents)
  for (const parent of parents) expect(await readdir(parent)).toContain(own)
  sandbox.release()
  await finish()
  for (const parent of parents) expect(await readdir(parent)).not.toContain(own)
})
