import { readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeGround, startOn } from './fixture.ts'
import { detectHost } from './host.ts'
import { inodeIn } from './tell.ts'

/** Stands in for the broker: tells what the relay asked for, and answers each connection with it. */
async function listenAsBroker(path: string): Promise<AsyncDisposable & { readonly asked: string[] }> {
  const asked: string[] = []
  const server = createServer((socket) => {
    socket.once('data', (chunk) => {
      asked.push(chunk.toString())
      socket.end('from outside\n')
    })
    socket.on('error', () => {})
  })
  await new Promise<void>((resolve) => server.listen(path, resolve))
  return {
    asked,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  }
}

const ask = (host: string, port: number) =>
  `node -e 'require("net").connect(${port}, "${host}").on("data", (d) => process.stdout.write(d)).on("error", (e) => console.log(e.code))'`

test('a running sandbox reaches nothing, then an allowed host through the relay, then nothing again', async () => {
  await using ground = await makeGround()
  const host = await detectHost(ground.dataDir)
  const socket = join(ground.folder, 'broker.sock')
  await using broker = await listenAsBroker(socket)
  const script = `${ask('example.test', 443)}; echo first >~/state; while [ ! -e ~/go ]; do sleep 0.01; done; ${ask('example.test', 443)}; echo second >~/state; while [ ! -e ~/stop ]; do sleep 0.01; done; ${ask('example.test', 443)}`
  const { sandbox, finish } = await startOn(
    ground,
    ground.request(['sh', '-c', script], { network: 'broker' }),
    host,
  )
  await using _ = sandbox
  sandbox.release()
  await ground.waitForHome('state', 'first\n')
  await sandbox.startRelay(socket, [{ host: 'example.test', address: '127.64.1.2', ports: [443] }])
  await ground.writeHome('go')
  await ground.waitForHome('state', 'second\n')
  await sandbox.stopRelay()
  await ground.writeHome('stop')
  expect(await finish()).toMatchObject({ exitCode: 0, stdout: 'EAI_AGAIN\nfrom outside\nEAI_AGAIN\n' })
  const asked = broker.asked.filter((text) => text !== 'orders\n')
  expect(asked).toHaveLength(1)
  expect(asked[0]).toContain('example.test')
})

test('the kernel counts connections to bare addresses and questions nobody answers, also when the agent is gone', async () => {
  await using ground = await makeGround()
  const host = await detectHost(ground.dataDir)
  const tries = [
    ...['192.0.2.1', '2001:db8::1'].map((address) => `net.connect(80, "${address}").on("error", say)`),
    'net.connect(9, "127.0.0.1").on("error", say)',
    'dgram.createSocket("udp4").send("x", 53, "127.0.0.53")',
    'dgram.createSocket("udp4").send("x", 9, "192.0.2.1", say)',
  ]
  const script = `const net = require("net"), dgram = require("dgram"); let said = 0; const say = (e) => { console.log(e.code); if (++said === 4) setTimeout(() => process.exit(), 50) }; ${tries.join(';')}`
  const { sandbox, finish } = await startOn(ground, ground.request(['node', '-e', script]), host)
  await using _ = sandbox
  expect(sandbox.turnedAway()).toEqual({ addresses: 0, datagrams: 0 })
  sandbox.release()
  const { stdout } = await finish()
  expect(stdout.trim().split('\n').toSorted()).toEqual([
    'ECONNREFUSED',
    'ENETUNREACH',
    'ENETUNREACH',
    'ENETUNREACH',
  ])
  expect(sandbox.turnedAway()).toEqual({ addresses: 3, datagrams: 1 })
})

test('a program is told on its own stderr where that is a pipe between programs, and nothing else is written to', async () => {
  await using ground = await makeGround()
  const host = await detectHost(ground.dataDir)
  const hold = (name: string) =>
    `node -e 'const net = require("net"), fs = require("fs"); net.createServer().listen(0, "127.0.0.1", function () { const at = this.address().port; const file = process.env.HOME + "/${name}"; const c = net.connect(at, "127.0.0.1", () => (fs.writeFileSync(file + ".part", c.localPort + " " + at), fs.renameSync(file + ".part", file))); setInterval(() => fs.existsSync(process.env.HOME + "/go") && process.exit(), 10) })'`
  const script = [
    `${hold('pipe')} 2>&1 | sed 's/^/told: /' &`,
    // Open for reading only, and a named pipe that leads elsewhere: ways to have us write in the agent's place.
    `${hold('file')} 2<README.md & mkfifo ~/fifo; cat ~/fifo >~/leaked & ${hold('named')} 2>~/fifo & wait; cat README.md ~/leaked`,
  ].join('\n')
  const { sandbox, finish } = await startOn(ground, ground.request(['sh', '-c', script]), host)
  await using _ = sandbox
  sandbox.release()
  for (const name of ['pipe', 'file', 'named']) {
    await ground.waitForHome(name)
    const [port = 0, toPort = 0] = (await readFile(join(ground.home, name), 'utf8')).split(' ').map(Number)
    const peer = { protocol: 'tcp', port, toPort } as const
    await sandbox.tell(peer, 'not reached')
    await sandbox.tell(peer, 'not reached')
  }
  await sandbox.tell({ protocol: 'udp', port: 1, toPort: 53 }, 'nobody is there')
  await ground.writeHome('go')
  expect(await finish()).toMatchObject({ stdout: 'told: not reached\noriginal\n', stderr: '' })
})

test('a line of /proc/net/tcp is found by both its ports', () => {
  const table =
    '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n' +
    '   0: 0100007F:42BB 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1\n' +
    '   1: 0100007F:8A2C 0100007F:42BB 01 00000000:00000000 00:00000000 00000000  1000        0 22 1\n' +
    '   2: 0100007F:8A2C 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 33 1\n'
  expect(inodeIn(table, 0x8a2c, 17_083)).toBe('22')
  expect(inodeIn(table, 0x8a2c, 8080)).toBe('33')
  expect(inodeIn(table, 17_083, 0x8a2c)).toBeNull()
  expect(inodeIn('', 1, 1)).toBeNull()
})
