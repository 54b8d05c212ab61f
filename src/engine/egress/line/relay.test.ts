import { once } from 'node:events'
import { connect, createServer, Server, Socket, type AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { handOver, startRelay, type Passed } from './relay.ts'

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

test('a host that was asked for before the list named it is given up with the list, and listened for again', async () => {
  const told: string[] = []
  const relay = await startRelay(
    { broker: '', proxyPort: await freePort(), aliases: [] },
    handOver(({ key, opening }, _handle, sent) => {
      if (key.startsWith('127.')) told.push(opening === undefined ? 'given up' : 'passed')
      sent?.()
    }),
  )
  const alias = { host: 'a.example', address: '127.64.9.9', ports: [await freePort()] }
  try {
    for (let turn = 0; turn < 2; turn++) {
      await relay.follow({ listen: alias })
      await relay.setAliases([alias])
      await relay.follow({ listen: alias })
      await relay.setAliases([])
    }
    expect(told).toEqual(['passed', 'given up', 'passed', 'given up'])
  } finally {
    relay.close()
  }
})

test('whoever connects before the broker has the listener is passed on to it, unread', async () => {
  const passed: [Passed, unknown][] = []
  const proxyPort = await freePort()
  const relay = await startRelay(
    { broker: '', proxyPort, aliases: [] },
    // The channel is slow: the listener is not yet the broker's.
    handOver((message, handle) => passed.push([message, handle])),
  )
  const early = connect(proxyPort, '127.0.0.1')
  try {
    early.write('CONNECT')
    await expect.poll(() => passed.filter(([, handle]) => handle instanceof Socket)).toHaveLength(1)
    const [message, client] = passed.find(([, handle]) => handle instanceof Socket) as [Passed, Socket]
    expect(message).toEqual({ key: 'proxy', opening: { kind: 'proxy' } })
    expect([client.isPaused(), client.bytesRead]).toEqual([true, 0])
    client.destroy()
  } finally {
    early.destroy()
    relay.close()
    for (const [, handle] of passed)
      if (handle instanceof Server) handle.close()
      else if (handle !== undefined && !(handle instanceof Socket)) (handle as { close(): void }).close()
  }
})
