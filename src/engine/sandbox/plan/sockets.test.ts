import { closeSync, constants, openSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { lookAtHost, makeGround, runIn } from '../fixture.ts'
import type { HostFacts } from '../host/host.ts'
import { run } from '../../base/process.ts'
import { boundPaths } from './sockets.ts'
import { presentLayers } from '../host/systemLayers.ts'
import { privateAmongSystem } from './systemView.ts'

let host: HostFacts
beforeAll(() => lookAtHost((found) => (host = found)))

const isRoot = process.getuid?.() === 0
const why = 'only root can put something below /opt'

test('a socket below /opt answers nobody inside, nor is a home there to be read', async ({ skip }) => {
  skip(!isRoot, why)
  await using ground = await makeGround()
  const folder = await mkdtemp('/opt/orangery-test-')
  await using _ = { [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) }
  await chmod(folder, 0o755)
  await mkdir(join(folder, 'home'))
  await writeFile(join(folder, 'home', 'key'), 'secret\n')
  const server = createServer((client) => client.end('answered\n'))
  await new Promise<void>((resolve) => server.listen(join(folder, 'socket'), resolve))
  try {
    await chmod(join(folder, 'socket'), 0o777)
    const ask = `perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un("${folder}/socket")) or die "refused\\n"; print <S>'`
    const script = `${ask} 2>&1; cat ${folder}/home/key 2>/dev/null`
    expect((await runIn(ground, host, script, { grants: [folder] })).stdout).toBe('answered\nsecret\n')
    const home = await privateAmongSystem(host.system, [join(folder, 'home')])
    const facts = { ...host, secretPaths: [...host.secretPaths, ...home] }
    expect((await runIn(ground, facts, script)).stdout).toBe('refused\n')
    // Where no overlay can be laid over the folder, by the kernel's list.
    expect((await runIn(ground, { ...facts, systemLayers: [] }, script)).stdout).toBe('refused\n')
    // That list does not know it by this name.
    await rename(join(folder, 'socket'), join(folder, 'renamed'))
    const again = ask.replace('/socket', '/renamed')
    expect((await runIn(ground, host, again, { grants: [folder] })).stdout).toBe('answered\n')
    expect((await runIn(ground, host, `${again} 2>&1`)).stdout).toBe('refused\n')
  } finally {
    await new Promise((resolve) => server.close(resolve))
  }
})

// Write-only and without waiting: where nobody reads, and no pipe of the host is meant, this fails.
const writeTo = (pipe: string) =>
  `perl -e 'sysopen(my $pipe, "${pipe}", 04001) or die "nobody reads\\n"; syswrite $pipe, "x"; print "written\\n"' 2>&1`

async function readPipe(path: string): Promise<Disposable> {
  await run('mkfifo', ['-m', '666', path])
  const reader = openSync(path, constants.O_RDWR)
  return { [Symbol.dispose]: () => closeSync(reader) }
}

test('a pipe below /opt takes nothing from inside', async ({ skip }) => {
  skip(!isRoot, why)
  await using ground = await makeGround()
  const folder = await mkdtemp('/opt/orangery-test-')
  await using _ = { [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) }
  await chmod(folder, 0o755)
  using _reader = await readPipe(join(folder, 'pipe'))
  const script = writeTo(join(folder, 'pipe'))
  expect((await runIn(ground, host, script, { grants: [folder] })).stdout).toBe('written\n')
  expect((await runIn(ground, host, script)).stdout).toBe('nobody reads\n')
})

test('a pipe among the real files takes nothing from inside, though a read-only mount would let it', async () => {
  await using ground = await makeGround()
  const pipe = join(ground.root, 'pipe')
  using _reader = await readPipe(pipe)
  const request = ground.request(['true'])
  const roots = request.workspace.roots.map((root) => ({
    ...root,
    mount: { kind: 'bind', source: root.path } as const,
  }))
  const copy = { workspace: { ...request.workspace, roots }, files: 'ro' } as const
  const real = { ...copy, workspace: { ...copy.workspace, strategy: 'none', driver: 'direct' } } as const
  expect((await runIn(ground, host, writeTo(pipe), copy)).stdout).toBe('written\n')
  expect((await runIn(ground, host, writeTo(pipe), real)).stdout).toBe('nobody reads\n')
})

test('a folder in which something was mounted since it was looked at is shown as it is', () => {
  const layers = [
    { path: '/usr', place: '/data/usr' },
    { path: '/opt', place: '/data/opt' },
  ]
  const mounts = '1 0 8:1 / / rw - ext4 a rw\n2 1 8:1 / /opt rw - ext4 a rw\n'
  expect(presentLayers(layers, mounts)).toBe(layers)
  expect(presentLayers(layers, `${mounts}3 2 8:1 / /opt/a rw - ext4 a rw\n`)).toEqual([layers[0]])
})

test('a home is hidden below a folder of the system, and no folder of programs for one', async () => {
  const system = [{ kind: 'folder', path: '/usr' } as const]
  expect(await privateAmongSystem(system, ['/', '/usr', '/usr/bin', '/usr/sbin', '/tmp'])).toEqual([])
})

test('bound paths are read from the list of the kernel, blanks included', () => {
  const table = [
    'Num       RefCount Protocol Flags    Type St Inode Path',
    '0000000000000000: 00000003 00000000 00000000 0001 03 14885236',
    '0000000000000000: 00000002 00000000 00010000 0001 01    15 /opt/a b/s',
    '0000000000000000: 00000002 00000000 00010000 0001 01 16 @abstract',
    '0000000000000000: 00000003 00000000 00000000 0001 03 17 /opt/a b/s',
  ].join('\n')
  expect(boundPaths(table)).toEqual(['/opt/a b/s'])
})
