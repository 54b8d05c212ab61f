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
  expect(broker.asked).toHaveLength(1)
  expect(broker.asked[0]).toContain('example.test')
})
