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
