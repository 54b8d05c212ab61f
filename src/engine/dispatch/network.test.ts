import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { EventBody } from '../../shared/events.ts'
import type { DispatchId } from '../../shared/ids.ts'
import { egressPath, Network } from './network.ts'

test('while something goes over, the log says now and then how much, and says nothing twice', async () => {
  const runtime = await mkdtemp(join(tmpdir(), 'network-'))
  const server = createServer((socket) => void socket.on('error', () => {}).pipe(socket)).listen(
    0,
    '127.0.0.1',
  )
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const id = '20260101000000-abcd' as DispatchId
  const events: EventBody[] = []
  const carried = () => events.filter(({ type }) => type === 'EgressCarried')
  const network = new Network({
    id,
    runtime,
    sandbox: { startRelay: async () => {}, tell: async () => {}, stopRelay: async () => {} },
    note: (event) => events.push(event),
    credentials: [],
    authority: null,
    proxies: null,
    beforeDenial: async () => null,
    carriedEveryMs: 20,
  })
  try {
    const pins = { 'a.test:7000': `127.0.0.1:${port}` }
    await network.set({
      mode: 'restricted',
      allow: [],
      deny: [],
      pins,
      readOnly: false,
      taken: [],
      returned: [],
    })
    const program = connect(egressPath(runtime, id))
    program.on('error', () => {}).write('alias a.test 7000\n\0hello')
    const hosts = [{ host: 'a.test', connections: 1, bytes: 12 }]
    await expect.poll(() => carried().at(-1)).toEqual({ type: 'EgressCarried', hosts })
    const before = carried().length
    await new Promise((done) => setTimeout(done, 100))
    expect(carried()).toHaveLength(before)
    program.destroy()
  } finally {
    await network[Symbol.asyncDispose]()
    server.close()
    await rm(runtime, { recursive: true })
  }
})
