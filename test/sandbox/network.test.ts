import { readlinkSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Peer } from '../../src/engine/base/sandbox.ts'
import { childrenOf, readProcess } from '../../src/engine/sandbox/holder/chain.ts'
import { makeGround, startOn, type Ground } from '../../src/engine/sandbox/fixture.ts'
import { detectHost } from '../../src/engine/sandbox/host/host.ts'
import { inodeIn } from '../../src/engine/sandbox/denials/peers.ts'

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

const withDescendants = (pid: number): readonly number[] => [pid, ...childrenOf(pid).flatMap(withDescendants)]

const ask = (host: string, port: number) =>
  `node -e 'require("net").connect(${port}, "${host}").on("data", (d) => process.stdout.write(d)).on("error", (e) => console.log(e.code))'`

test('a running sandbox reaches nothing, then an allowed host, then nothing again; the relay sees nothing of what the agent sees', async () => {
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
  const relays = withDescendants(process.pid).filter((pid) => readProcess(pid, 'cmdline').includes(socket))
  const viewOf = (pid: number) => readlinkSync(`/proc/${pid}/ns/mnt`)
  expect([...new Set(relays.map(viewOf))]).toEqual([viewOf(process.pid)])
  expect(withDescendants(sandbox.pid).map(viewOf).at(-1)).not.toBe(viewOf(process.pid))
  await ground.writeHome('go')
  await ground.waitForHome('state', 'second\n')
  await sandbox.stopRelay()
  await ground.writeHome('stop')
  expect(await finish()).toMatchObject({ exitCode: 0, stdout: 'EAI_AGAIN\nfrom outside\nEAI_AGAIN\n' })
  const asked = broker.asked.filter((text) => text !== 'orders\n')
  expect(asked).toHaveLength(1)
  expect(asked[0]).toContain('example.test')
})

test('a change of the network that meets the end of the sandbox fails, if at all, because it has ended, and not for a relay', async () => {
  await using ground = await makeGround()
  const host = await detectHost(ground.dataDir)
  const socket = join(ground.folder, 'broker.sock')
  await using _broker = await listenAsBroker(socket)
  const { sandbox, finish } = await startOn(
    ground,
    ground.request(['sleep', '60'], { network: 'broker' }),
    host,
  )
  await using _ = sandbox
  sandbox.release()
  await sandbox.startRelay(socket, [])
  const changed = sandbox.startRelay(socket, [{ host: 'a.test', address: '127.64.1.2', ports: [443] }])
  // The first of its namespace: the kernel takes the relay along, before anybody hears of it.
  for (const holder of childrenOf(sandbox.pid)) process.kill(holder, 'SIGKILL')
  // Where we have stopped the relay by then, there is nobody left to be told.
  const told = await changed.then(
    () => 'nobody left',
    (error: { readonly code?: string }) => error.code,
  )
  expect(['nobody left', 'sandbox.ended']).toContain(told)
  await finish()
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

/** Connects to itself, says by which ports, and waits to be let go. */
const holdingScript = `
const net = require('net'), fs = require('fs'), home = process.env.HOME
const [, , name, spare = '0'] = process.argv
for (let count = 0; count < Number(spare); count++) fs.openSync('/dev/null')
net.createServer().listen(0, '127.0.0.1', function () {
  const at = this.address().port, file = home + '/' + name
  const socket = net.connect(at, '127.0.0.1', () => {
    fs.writeFileSync(file + '.part', socket.localPort + ' ' + at)
    fs.renameSync(file + '.part', file)
  })
  setInterval(() => fs.existsSync(home + '/go') && process.exit(), 10)
})`
/** As agents written in Node run programs: each pipe is a pair of sockets. With a path, a socket that is named so. */
const spawningScript = `
const { spawn } = require('child_process'), net = require('net')
const [, , name, path] = process.argv
const hold = (stderr) => spawn('node', ['hold.js', name], { stdio: ['ignore', 'ignore', stderr] })
const hear = (from) => from.on('data', (text) => process.stdout.write(name + ' heard: ' + text))
if (path === undefined) hear(hold('pipe').stderr)
else net.createServer((socket) => hear(socket)).listen(path, function () {
  const socket = net.connect(path, () => hold(socket).on('exit', () => process.exit()))
})`

async function peerNamed(ground: Ground, name: string): Promise<Peer> {
  await ground.waitForHome(name)
  const [port = 0, toPort = 0] = (await readFile(join(ground.home, name), 'utf8')).split(' ').map(Number)
  return { protocol: 'tcp', port, toPort }
}

test('a program is told on its own stderr, and nothing is written to that it could not write to', async () => {
  await using ground = await makeGround()
  await writeFile(join(ground.root, 'hold.js'), holdingScript)
  await writeFile(join(ground.root, 'spawn.js'), spawningScript)
  const host = await detectHost(ground.dataDir)
  const script = [
    `node hold.js pipe 2>&1 | sed 's/^/pipe heard: /' &`,
    'node spawn.js socket & node hold.js log 2>~/told & script -qec "node hold.js pty" ~/drawn </dev/null >/dev/null &',
    // Open for reading only, and pipes and sockets with a name: ways to have us write in the agent's place.
    'node hold.js file 2<README.md & mkfifo ~/fifo; cat ~/fifo >~/leaked & node hold.js named 2>~/fifo &',
    'node spawn.js served ~/served.sock & wait; cat README.md ~/leaked; sed "s/^/file heard: /" ~/told; grep "not reached" ~/drawn',
  ].join('\n')
  const { sandbox, finish } = await startOn(ground, ground.request(['sh', '-c', script]), host)
  await using _ = sandbox
  sandbox.release()
  for (const name of ['pipe', 'socket', 'log', 'pty', 'file', 'named', 'served']) {
    const peer = await peerNamed(ground, name)
    for (let round = 0; round < 3; round++) await sandbox.tell(peer, 'not reached')
  }
  await sandbox.tell({ protocol: 'udp', port: 1, toPort: 53 }, 'nobody is there')
  await ground.writeHome('go')
  const { stdout, stderr } = await finish()
  expect(stdout.replaceAll('\r', '').trim().split('\n').toSorted()).toEqual([
    'file heard: not reached',
    'not reached',
    'original',
    'pipe heard: not reached',
    'socket heard: not reached',
  ])
  expect(stderr).toBe('')
})

test('an agent that fills its tables of descriptors keeps nobody waiting, and other programs are told all the same', async () => {
  await using ground = await makeGround()
  await writeFile(join(ground.root, 'hold.js'), holdingScript)
  const host = await detectHost(ground.dataDir)
  const script = `ulimit -n $(ulimit -Hn); node hold.js full 900 2>~/full.told & node hold.js early 2>~/early.told & while [ ! -e ~/early ]; do sleep 0.01; done; node hold.js late 900 & wait; cat ~/*.told`
  const { sandbox, finish } = await startOn(ground, ground.request(['sh', '-c', script]), host)
  await using _ = sandbox
  sandbox.release()
  const names = ['full', 'early', 'late']
  const [full, early] = await Promise.all(names.map((name) => peerNamed(ground, name)))
  if (full === undefined || early === undefined) throw new Error('nobody is there')
  const flood = Array.from({ length: 500 }, (_, count) => sandbox.tell(full, `full ${count}`))
  let busiest = 0
  const watch = setInterval(() => {
    const open = process.getActiveResourcesInfo().filter((name) => name === 'FSReqPromise')
    busiest = Math.max(busiest, open.length)
  }, 1)
  await Promise.all(flood).finally(() => clearInterval(watch))
  expect(busiest).toBeLessThan(64)
  const told = async (round: number) => {
    await sandbox.tell(early, `early ${round}`)
    return (await readFile(join(ground.home, 'early.told'), 'utf8')) !== ''
  }
  // A busy machine may be too slow for a search, which is given up then.
  for (let round = 0; round < 20 && !(await told(round));) round++
  await ground.writeHome('go')
  expect((await finish()).stdout).toMatch(/^early \d+\n$/)
})

test('a line of /proc/net/tcp is found by both its ports', () => {
  const table =
    '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n' +
    '   0: 0100007F:42BB 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1\n' +
    '   1: 0100007F:8A2C 0100007F:42BB 01 00000000:00000000 00:00000000 00000000  1000        0 22 1\n' +
    '   2: 0100007F:8A2C 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 33 1\n'
  const tcp = (port: number, toPort: number) => ({ protocol: 'tcp', port, toPort }) as const
  expect(inodeIn(table, tcp(0x8a2c, 17_083))).toBe('22')
  expect(inodeIn(table, tcp(0x8a2c, 8080))).toBe('33')
  expect(inodeIn(table, tcp(17_083, 0x8a2c))).toBeNull()
  expect(inodeIn(table, { protocol: 'udp', port: 0x42bb, toPort: 53 })).toBe('11')
  expect(inodeIn('', tcp(1, 1))).toBeNull()
})
