import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { makeGround, runIn } from './fixture.ts'
import { detectHost, type HostFacts } from './host.ts'
import { boundPaths } from './sockets.ts'
import { homeAmongSystem } from './systemView.ts'

let host: HostFacts
beforeAll(async () => {
  await using ground = await makeGround()
  host = await detectHost(ground.dataDir)
})

// Only root can put something there.
const isRoot = process.getuid?.() === 0

test.runIf(isRoot)('a socket below /opt answers nobody inside, nor is a home there to be read', async () => {
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
    const home = await homeAmongSystem(host.system, [join(folder, 'home')])
    const facts = { ...host, secretPaths: [...host.secretPaths, ...home] }
    expect((await runIn(ground, facts, script)).stdout).toBe('refused\n')
  } finally {
    await new Promise((resolve) => server.close(resolve))
  }
})

test('a home is hidden below a folder of the system, and no folder of programs for one', async () => {
  const system = [{ kind: 'folder', path: '/usr' } as const]
  expect(await homeAmongSystem(system, ['/', '/usr', '/usr/bin', '/usr/sbin', '/tmp'])).toEqual([])
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
