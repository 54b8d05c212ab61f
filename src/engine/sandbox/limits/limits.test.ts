import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Limits } from '../../../shared/spec.ts'
import { findUnifiedParent, handOn, makeCgroup, runtimeFolder, type CgroupFacts } from './cgroups.ts'
import { makeGround, startOn } from '../fixture.ts'
import { detectHost, type HostFacts } from '../host/host.ts'
import { planLimits } from './limits.ts'
import { parseMostProcesses } from './rlimit.ts'
import { parseProcessors, writeProcessors } from '../host/processors.ts'
import { parseUse } from '../narrow/processes.ts'

let host: HostFacts
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'orangery-limits-'))
  host = await detectHost(folder)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const id = '20261116000000-abcd' as Parameters<typeof planLimits>[2]
const all: Limits = { memory_mb: 256, cpus: 1.5, pids: 40, disk_mb: 100, timeout_s: 60 }
const planOn = (cgroups: HostFacts['cgroups'], limits = all) => planLimits(limits, { ...host, cgroups }, id)

describe('every limit is planned', () => {
  test('on a systemd user session as properties of one scope', () => {
    const plan = planOn({ kind: 'systemd', hands: ['memory', 'cpu', 'pids'] })
    expect(plan.scope).toEqual({
      properties: ['MemoryMax=268435456', 'MemorySwapMax=0', 'CPUQuota=150%', 'TasksMax=49'],
      settings: {
        'memory.max': '268435456',
        'memory.swap.max': '0',
        'cpu.max': '150000 100000',
        'pids.max': '49',
      },
    })
    expect(plan).toMatchObject({ cgroup: null, processes: null, affinity: null, diskMb: 100, timeoutS: 60 })
  })

  test('on a systemd user session that was not handed every controller by other means, or not at all', () => {
    const systemd = { kind: 'systemd', hands: ['memory', 'pids'] } as const
    expect(planOn(systemd, { memory_mb: 256, cpus: 1 })).toMatchObject({
      scope: { properties: ['MemoryMax=268435456', 'MemorySwapMax=0'] },
      affinity: expect.stringMatching(/^\d+$/) as string,
    })
    expect(() => planOn(systemd, { cpus: 1.5 })).toThrow(
      'limit cpus: no control group for cpu is ours to write',
    )
  })

  test('with control groups of version 2 in one folder', () => {
    const plan = planOn({ kind: 'v2', parents: { memory: '/g', cpu: '/g', pids: '/g' } })
    expect(plan.cgroup).toEqual({
      kind: 'v2',
      folders: [`/g/orangery-${id}`],
      settings: [
        { file: `/g/orangery-${id}/memory.max`, value: '268435456' },
        { file: `/g/orangery-${id}/memory.swap.max`, value: '0' },
        { file: `/g/orangery-${id}/cpu.max`, value: '150000 100000' },
        { file: `/g/orangery-${id}/pids.max`, value: '43' },
      ],
    })
  })

  test('with version 1 together with swap, where the kernel counts that', () => {
    const settingsOn = (countsSwap: boolean) =>
      planOn({ kind: 'v1', parents: { memory: '/m' }, countsSwap }, { memory_mb: 8 }).cgroup?.settings.map(
        ({ file, value }) => [file.slice(file.lastIndexOf('/') + 1), value],
      )
    const [alone, both] = ['memory.limit_in_bytes', 'memory.memsw.limit_in_bytes'].map((name) => [
      name,
      '8388608',
    ])
    expect(settingsOn(true)).toEqual([alone, both])
    expect(settingsOn(false)).toEqual([alone])
  })

  test('with version 1 in one folder for each, and what is missing by other means or not at all', () => {
    const plan = planOn({ kind: 'v1', parents: { memory: '/m', cpu: '/c', pids: '/p' } })
    expect(plan.cgroup?.folders).toEqual([`/m/orangery-${id}`, `/c/orangery-${id}`, `/p/orangery-${id}`])
    const none = { kind: 'none', why: 'there is none' } as const
    expect(() => planOn(none, { memory_mb: 1 })).toThrow('limit memory_mb: there is none')
    expect(() => planOn(none, { cpus: 1.5 })).toThrow('limit cpus: there is none')
    expect(planLimits({ cpus: 8 }, { ...host, cgroups: none, processors: [1, 2, 4] }, id).affinity).toBe(
      '1-2,4',
    )
    expect(() => planOn(none, { memory_mb: 1, cpus: 1.5 })).toThrow(
      'limit memory_mb: there is none; limit cpus: there is none',
    )
    const ordinary = { ...host, uid: 1000, cgroups: none }
    expect(planLimits({ pids: 9 }, ordinary, id).processes).toBe(9)
  })
})

test('a limit too small for a sandbox to start in fails preflight, with the smallest that is enough', () => {
  const groups = { memory: '/g', cpu: '/g', pids: '/g' }
  for (const cgroups of [
    { kind: 'systemd', hands: ['memory', 'pids'] },
    { kind: 'v2', parents: groups },
  ] as const) {
    const small = () => planOn(cgroups, { pids: 2, memory_mb: 1 })
    expect(small).toThrow(
      expect.objectContaining({ kind: 'preflight', code: 'sandbox.limit_not_enforceable' }),
    )
    expect(small).toThrow('limit pids: 2 is too small for a sandbox to start in on this host')
    expect(small).toThrow(
      expect.objectContaining({ hint: expect.stringContaining('Give at least 4') as string }),
    )
    expect(() => planOn(cgroups, { pids: 4, memory_mb: 4 })).not.toThrow()
  }
  // Set when all that comes before the agent is done.
  const ordinary = { ...host, uid: 1000, cgroups: { kind: 'none', why: 'there is none' } as const }
  expect(planLimits({ pids: 1 }, ordinary, id).processes).toBe(1)
})

test('a limit that no control group takes fails preflight, with the bound that it does', () => {
  const groups = { memory: '/g', cpu: '/g', pids: '/g' }
  for (const cgroups of [
    { kind: 'systemd', hands: ['cpu', 'pids'] },
    { kind: 'v1', parents: groups },
    { kind: 'v2', parents: groups },
  ] as const) {
    const refused = expect.objectContaining({ kind: 'preflight', code: 'sandbox.limit_not_enforceable' })
    expect(() => planOn(cgroups, { cpus: 0.0099 })).toThrow(refused)
    expect(() => planOn(cgroups, { cpus: 0.0099 })).toThrow('limit cpus: 0.0099 is less than the kernel')
    expect(() => planOn(cgroups, { pids: 4_194_296 })).toThrow('limit pids: 4194296 is more than the kernel')
    expect(() => planOn(cgroups, { cpus: 0.01, pids: 4_194_295 })).not.toThrow()
  }
})

test('sandboxes that are each held to some processors are spread over all of them', () => {
  const none = { kind: 'none', why: 'there is none' } as const
  const facts = { ...host, cgroups: none, processors: [1, 3, 4, 5, 8] }
  const masks = (cpus: number) =>
    Array.from({ length: 10 }, (_, index) => {
      const suffix = index.toString(16).padStart(4, '0')
      return planLimits({ cpus }, facts, `20261116000000-${suffix}` as typeof id).affinity ?? ''
    })
  expect(masks(1).slice(0, 6)).toEqual(['1', '3', '4', '5', '8', '1'])
  expect(masks(2).slice(0, 4)).toEqual(['1,3', '4-5', '1,8', '3-4'])
  for (const cpus of [1, 2, 3, 4]) {
    const counts = new Map(facts.processors.map((processor) => [processor, 0]))
    for (const mask of masks(cpus)) {
      const held = parseProcessors(mask)
      expect(held).toHaveLength(cpus)
      for (const processor of held) counts.set(processor, (counts.get(processor) ?? 0) + 1)
    }
    expect(new Set(counts.values())).toEqual(new Set([2 * cpus]))
  }
})

test('processors are read and written as the kernel writes them', () => {
  expect(parseProcessors('0-2,5\n')).toEqual([0, 1, 2, 5])
  expect(writeProcessors([0, 1, 2, 5])).toBe('0-2,5')
})

test('the group of version 2 we may make ours is found above our own, or at the very top', async () => {
  const session = join(folder, 'user.slice', 'session')
  await mkdir(join(session, 'ours'), { recursive: true })
  await writeFile(join(session, 'cgroup.subtree_control'), 'memory pids\n')
  await writeFile(join(session, 'cgroup.procs'), '')
  expect(await findUnifiedParent('/user.slice/session/ours', folder)).toEqual({
    memory: session,
    pids: session,
  })
  expect(await findUnifiedParent('/', folder)).toEqual({})
  await writeFile(join(folder, 'cgroup.subtree_control'), 'cpu memory pids\n')
  await writeFile(join(folder, 'cgroup.procs'), '')
  expect(Object.keys(await findUnifiedParent('/', folder))).toEqual(['memory', 'cpu', 'pids'])
})

test('the group of version 2 is one for all controllers: the nearest of those that hand the most', async () => {
  const top = join(folder, 'most')
  const slice = join(top, 'system.slice')
  await mkdir(join(slice, 'lab.service'), { recursive: true })
  for (const group of [top, slice]) await writeFile(join(group, 'cgroup.procs'), '')
  await writeFile(join(slice, 'cgroup.subtree_control'), 'memory pids\n')
  await writeFile(join(top, 'cgroup.subtree_control'), 'cpu memory pids\n')
  const find = () => findUnifiedParent('/system.slice/lab.service', top)
  expect(await find()).toEqual({ memory: top, cpu: top, pids: top })
  await writeFile(join(top, 'cgroup.subtree_control'), 'memory pids\n')
  expect(await find()).toEqual({ memory: slice, pids: slice })
})

test('what the top of all groups could hand on and does not is told as the command that has it do so', async () => {
  const top = join(folder, 'true-top')
  await mkdir(top)
  await writeFile(join(top, 'cgroup.controllers'), 'cpuset cpu io memory pids\n')
  await writeFile(join(top, 'cgroup.subtree_control'), '\n')
  const missing = ['memory', 'cpu', 'pids'] as const
  expect(await handOn(missing, top)).toBe(`run: echo '+memory +cpu +pids' >${top}/cgroup.subtree_control`)
  await writeFile(join(top, 'cgroup.subtree_control'), 'memory pids\n')
  expect(await handOn(missing, top)).toBe(`run: echo '+cpu' >${top}/cgroup.subtree_control`)
  expect(await handOn(['memory'], top)).toBeNull()
  // The top of a namespace only, which may hold processes.
  await writeFile(join(top, 'cgroup.type'), 'domain\n')
  expect(await handOn(missing, top)).toBeNull()
})

test('a limit that is not held here is refused with the command after which it would be, if there is one', () => {
  const none = { kind: 'none', why: 'there is none' } as const
  const hintOf = (cgroups: CgroupFacts, limits: Limits) => {
    try {
      planOn(cgroups, limits)
    } catch (error) {
      return (error as { hint?: string }).hint
    }
    return null
  }
  expect(hintOf(none, { memory_mb: 9 })).toMatch(/leave the limit out\.$/)
  expect(hintOf({ ...none, more: 'run: sudo it' }, { memory_mb: 9 })).toMatch(/To have it held run: sudo it$/)
  const systemd = { kind: 'systemd', hands: ['memory', 'pids'], more: 'run: sudo it' } as const
  expect(hintOf(systemd, { cpus: 0.5 })).toMatch(/whole number .* To have it held run: sudo it$/)
  expect(hintOf(systemd, { memory_mb: 9, cpus: 1 })).toBeNull()
})

test("the user's systemd is found where nobody told of it, or of another user's", async () => {
  const uid = String(process.getuid?.())
  const session = join(folder, 'told')
  await mkdir(join(folder, uid, 'systemd'), { recursive: true })
  await mkdir(session)
  const found = (told?: string) => runtimeFolder(told === undefined ? {} : { XDG_RUNTIME_DIR: told }, folder)
  expect(found()).toBeNull()
  await writeFile(join(folder, uid, 'systemd', 'private'), '')
  expect(found()).toBe(join(folder, uid))
  expect(found(join(folder, 'nowhere'))).toBe(join(folder, uid))
  expect(found(session)).toBe(session)
})

test('no more processes are promised than RLIMIT_NPROC can be set to, and none where it counts all of a user', () => {
  const none = { kind: 'none', why: 'there is none' } as const
  const ordinary = { ...host, uid: 1000, cgroups: none, mostProcesses: 400 }
  const planned = (pids: number, more: Partial<HostFacts> = {}) =>
    planLimits({ pids }, { ...ordinary, ...more }, id).processes
  expect(planned(399)).toBe(399)
  expect(planned(1e9, { mostProcesses: null })).toBe(1e9)
  expect(() => planned(400)).toThrow('limit pids: 400 is more than this user may have (`ulimit -Hu` is 400)')
  expect(planned(9, { kernel: '5.14.0' })).toBe(9)
  expect(() => planned(9, { kernel: '5.10.0-30-amd64' })).toThrow('limit pids: there is none')
  const limits = (processes: string) =>
    `Limit  Soft Limit  Hard Limit  Units\n${processes}\nMax open files  1 2 files`
  expect(
    parseMostProcesses(
      limits('Max processes             5                    96365                processes'),
    ),
  ).toBe(96365)
  expect(
    parseMostProcesses(
      limits('Max processes             5                    unlimited            processes'),
    ),
  ).toBeNull()
})

test('by what each limit is held is recorded', () => {
  const v2 = { kind: 'v2', parents: { memory: '/g' } } as const
  const ordinary = { ...host, uid: 1000, processors: [0, 1] }
  const of = (cgroups: CgroupFacts, limits: Limits) => planLimits(limits, { ...ordinary, cgroups }, id).by
  expect(of(v2, { memory_mb: 9, cpus: 1, pids: 9, disk_mb: 9, timeout_s: 9 })).toEqual({
    memory_mb: 'cgroup-v2',
    cpus: 'affinity',
    pids: 'rlimit',
    disk_mb: 'watch',
    timeout_s: 'timer',
  })
  expect(of({ kind: 'systemd', hands: ['cpu'] }, { cpus: 0.5 })).toEqual({ cpus: 'systemd-scope' })
  expect(of({ kind: 'v1', parents: { pids: '/p' } }, { pids: 9 })).toEqual({ pids: 'cgroup-v1' })
  expect(of(v2, {})).toEqual({})
})

test('what a group of version 2 tells of limits run into is read as the kernel writes it', async () => {
  const group = join(folder, 'made')
  await using cgroup = await makeCgroup({
    kind: 'v2',
    folders: [group],
    settings: [{ file: join(group, 'memory.max'), value: '1' }],
  })
  expect(await readFile(join(group, 'memory.max'), 'utf8')).toBe('1')
  expect(await cgroup.readEvents()).toEqual({ memory: 0, pids: 0 })
  await writeFile(
    join(group, 'memory.events'),
    'low 0\nhigh 0\nmax 12\noom 2\noom_kill 1\noom_group_kill 0\n',
  )
  await writeFile(join(group, 'pids.events'), 'max 3\n')
  await writeFile(join(group, 'memory.peak'), `${64 * 1024 * 1024}\n`)
  await writeFile(join(group, 'cpu.stat'), 'usage_usec 1234567\nuser_usec 1\nsystem_usec 2\n')
  expect(await cgroup.readEvents()).toEqual({ memory: 1, pids: 3 })
  expect(await cgroup.readUse()).toEqual({ peakMb: 64, cpuMs: 1235 })
  await rm(group, { recursive: true })
})

test('what groups of version 1 used is read where the kernel counts it, and is not known elsewhere', async () => {
  const group = join(folder, 'apart')
  await using cgroup = await makeCgroup({ kind: 'v1', folders: [group], settings: [] })
  expect(await cgroup.readUse()).toEqual({ peakMb: null, cpuMs: null })
  await writeFile(join(group, 'cpu.stat'), 'nr_periods 0\nnr_throttled 0\nthrottled_time 0\n')
  await writeFile(join(group, 'cpuacct.usage'), '1234567890\n')
  expect(await cgroup.readUse()).toEqual({ peakMb: null, cpuMs: 1235 })
  await rm(group, { recursive: true })
})

/** A systemd-run that notes its options and makes no scope. */
async function fakeScope(folder: string): Promise<{ readonly noted: string; readonly facts: HostFacts }> {
  const fake = join(folder, 'systemd-run')
  const noted = join(folder, 'noted')
  const script = `#!/bin/sh
for a; do echo "$a"; [ "$a" != -- ] || break; done >${noted}
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
`
  await writeFile(fake, script, { mode: 0o755 })
  const cgroups = { kind: 'systemd', hands: ['pids'] } as const
  return { noted, facts: { ...host, cgroups, tools: { ...host.tools, 'systemd-run': fake } } }
}

test('a sandbox whose scope does not hold it to what was asked for does not get to run', async () => {
  await using ground = await makeGround()
  const { noted, facts } = await fakeScope(ground.folder)
  const request = ground.request(['sh', '-c', 'exit 3'], { limits: { pids: 5 } })
  const { sandbox } = await startOn(ground, request, facts)
  await using _ = sandbox
  expect((await readFile(noted, 'utf8')).split('\n')).toEqual(
    expect.arrayContaining(['--user', '--scope', '-p', 'TasksMax=13', '--']) as string[],
  )
  expect(sandbox.probe.checks.filter(({ ok }) => !ok)).toMatchObject([
    { name: 'limit pids.max', declared: '13' },
  ])
  expect(() => sandbox.release()).toThrow('limit pids.max')
})

test('what a process uses is read behind its name, whatever that holds', () => {
  const line = '42 (a) b (c) S 1 42 42 0 -1 4194304 5 6 7 8 3 4 5 6 20 0 9 0 1 1000000 256 1 2'
  expect(parseUse(line)).toEqual({ memoryMb: 1, tasks: 9, ownMs: 70, endedMs: 110 })
  expect(parseUse('')).toEqual({ memoryMb: 0, tasks: 0, ownMs: 0, endedMs: 0 })
})
