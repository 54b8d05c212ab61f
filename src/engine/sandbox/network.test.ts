import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeGround, startOn } from './fixture.ts'
import { detectHost } from './host.ts'

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
  const script = `const net = require("net"), dgram = require("dgram"), say = (e) => console.log(e.code); ${tries.join(';')}; setTimeout(() => process.exit(), 100)`
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
