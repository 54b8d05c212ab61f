import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { chmod, link, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import type { SandboxRequest } from '../../base/sandbox.ts'
import { closedLister, countDisk, diskUse } from './disk.ts'
import { type Ground, lookAtHost, makeGround, runIn } from '../fixture.ts'
import type { HostFacts } from '../host/host.ts'
import { planSandbox, type SandboxPlan } from '../plan/plan.ts'

let host: HostFacts
beforeAll(() => lookAtHost((found) => (host = found)))

const megabyte = 1024 * 1024

function boundOn(
  ground: Ground,
  driver: 'plain-copy' | 'direct',
  strategy: 'clone' | 'none',
): Partial<SandboxRequest> {
  const { workspace } = ground.request(['true'])
  const mount = { kind: 'bind', source: ground.root } as const
  const roots = workspace.roots.map((root) => ({ ...root, mount }))
  return { workspace: { ...workspace, driver, strategy, roots }, limits: { disk_mb: 8 } }
}

const lister = closedLister({ shell: { unshare: 'unshare' }, tools: { find: 'find' } } as SandboxPlan)

test('a file of several names is counted once', async () => {
  await using ground = await makeGround()
  await writeFile(join(ground.root, 'big'), Buffer.alloc(megabyte))
  const before = await diskUse([ground.root])
  for (const name of ['one', 'two', 'three']) await link(join(ground.root, 'big'), join(ground.root, name))
  expect(await diskUse([ground.root, ground.root])).toBe(before)
})

test('thousands of files are counted as few are, those of several names too', async () => {
  // In memory: a busy disk takes its time for so many.
  await using ground = await makeGround('project', '/dev/shm')
  const { root } = ground
  await link(join(root, 'README.md'), join(root, 'again'))
  for (let number = 0; number < 5200; number++) writeFileSync(join(root, `file${number}`), '')
  const many = await diskUse([root, root], lister)
  expect(many).toBeGreaterThanOrEqual(5200 * 1024)
  expect(many).toBe(await diskUse([root]))
  expect((await countDisk([root], lister, 100 * 1024)).bytes).toBeLessThan(many)
  // As where the user may start no more processes.
  expect(await countDisk([root], ['/nowhere/find'])).toEqual({ bytes: many, isWhole: true })
})

/** Folders nested deeper than any path reaches, with a large file in the last of them. */
const nest = `import os, time
for i in range(30):
  os.mkdir("d" * 200)
  os.chdir("d" * 200)
open("big", "wb").write(b"1" * (24 << 20))
time.sleep(20)`

/** Node removes nothing so deep. */
const unnest = (folder: string) => execFileSync('rm', ['-r', join(folder, 'd'.repeat(200))])

test('what lies deeper than a path can be long is counted, and where it cannot be, that is told', async () => {
  await using ground = await makeGround()
  execFileSync('python3', ['-c', nest.replace('time.sleep(20)', '')], { cwd: ground.root })
  const refused = ['sh', '-c', 'echo find: x: Permission denied >&2']
  const counts = [await countDisk([ground.root], lister)]
  for (const other of [[], ['/nowhere/find'], refused]) counts.push(await countDisk([ground.root], other))
  unnest(ground.root)
  expect(counts.map(({ isWhole }) => isWhole)).toEqual([true, false, false, false])
  expect(counts[0]?.bytes).toBeGreaterThan(24 * megabyte)
})

describe('the disk limit', () => {
  test('holds for a copy, by what it grew', async () => {
    await using ground = await makeGround()
    await writeFile(join(ground.root, 'large'), Buffer.alloc(12 * megabyte))
    const changes = boundOn(ground, 'plain-copy', 'clone')
    expect((await runIn(ground, host, 'echo more >more; sleep 0.3', changes)).limits).toEqual([])
    const outcome = await runIn(ground, host, 'head -c 24M /dev/zero >new; exec sleep 20', changes)
    expect(outcome.limits).toEqual(['disk'])
  })

  test('holds for a file without a name, and one in a folder that was closed or lies too deep', async () => {
    await using ground = await makeGround()
    const limits = { disk_mb: 8 }
    const nameless = 'exec 7>gone; rm gone; head -c 24M /dev/zero >&7; sleep 20'
    expect((await runIn(ground, host, nameless, { limits })).limits).toEqual(['disk'])
    const mapped = `import ctypes, mmap, os, time
f = os.open("gone", os.O_RDWR | os.O_CREAT)
os.unlink("gone")
os.ftruncate(f, 24 << 20)
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
where = libc.mmap(None, 24 << 20, 3, 1, f, 0)
os.close(f)
ctypes.memset(where, 1, 24 << 20)
time.sleep(20)`
    await writeFile(join(ground.home, 'mapped.py'), mapped)
    expect((await runIn(ground, host, 'python3 ~/mapped.py', { limits })).limits).toEqual(['disk'])
    const closed = 'mkdir -p closed/in; cd closed/in; chmod 0 ..; head -c 24M /dev/zero >big; exec sleep 20'
    expect((await runIn(ground, host, closed, { limits })).limits).toEqual(['disk'])
    await chmod(join(ground.upper, 'closed'), 0o700)
    await using another = await makeGround()
    await writeFile(join(another.home, 'nest.py'), nest)
    const deep = await runIn(another, host, 'python3 ~/nest.py', { limits })
    unnest(another.upper)
    expect(deep).toMatchObject({ exitCode: 137, limits: ['disk'] })
  })

  // Linux counts them on the socket that is to receive them, and tells nobody which files they are.
  test('holds for files without a name whose descriptors are parked in messages of sockets', async () => {
    await using ground = await makeGround()
    const park = `import os, socket, time
a, b = socket.socketpair()
for i in range(6):
  f = os.open("x", os.O_RDWR | os.O_CREAT)
  os.unlink("x")
  os.write(f, b"1" * (6 << 20))
  socket.send_fds(a, [b"x"], [f])
  os.close(f)
time.sleep(30)`
    await writeFile(join(ground.home, 'park.py'), park)
    const outcome = await runIn(ground, host, 'python3 ~/park.py', { limits: { disk_mb: 8 } })
    expect(outcome).toMatchObject({ exitCode: 137, likelyLimits: ['disk'] })
  })

  test('holds for files without end that are empty', async () => {
    await using ground = await makeGround()
    const many = 'perl -e \'for (1 .. 3000) { open F, ">", "f$_" } sleep 30\''
    expect((await runIn(ground, host, many, { limits: { disk_mb: 1 } })).limits).toEqual(['disk'])
  })

  test('is told of a run that was over before anybody looked', async () => {
    await using ground = await makeGround()
    const outcome = await runIn(ground, host, 'head -c 24M /dev/zero >big', { limits: { disk_mb: 8 } })
    expect(outcome.limits).toEqual(['disk'])
  })

  test('is refused where the agent writes the real files', async () => {
    await using ground = await makeGround()
    const request = ground.request(['true'], boundOn(ground, 'direct', 'none'))
    expect(() => planSandbox(request, host)).toThrow('limit disk_mb: this host cannot enforce it')
    expect(() => planSandbox({ ...request, limits: {} }, host)).not.toThrow()
  })
})

test('nothing can be written in /dev itself, which is memory of the host without a bound', async () => {
  await using ground = await makeGround()
  const script = 'touch /dev/new 2>/dev/null || echo refused; echo shared >/dev/shm/new && cat /dev/shm/new'
  expect((await runIn(ground, host, script)).stdout).toBe('refused\nshared\n')
})
