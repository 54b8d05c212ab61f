import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { EventBody } from '../../../shared/events.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import { egressPath, Network } from './network.ts'

const id = '20260101000000-abcd' as DispatchId
const nothing = { allow: [], deny: [], pins: {}, readOnly: false, taken: [], returned: [] }

/** A network that notes what happens, and a server that sends everything back. */
async function makeNetwork(carriedEveryMs?: number, unheard: () => readonly string[] = () => []) {
  const runtime = await mkdtemp(join(tmpdir(), 'network-'))
  const server = createServer((socket) => void socket.on('error', () => {}).pipe(socket)).listen(
    0,
    '127.0.0.1',
  )
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const events: EventBody[] = []
  const network = new Network({
    id,
    runtime,
    sandbox: { startRelay: async () => unheard(), tell: async () => {}, stopRelay: async () => {} },
    note: (event) => events.push(event),
    credentials: [],
    authority: null,
    proxies: null,
    beforeDenial: async () => null,
    ...(carriedEveryMs === undefined ? {} : { carriedEveryMs }),
  })
  return {
    network,
    events,
    pins: { 'a.test:7000': `127.0.0.1:${port}` },
    program: () => {
      const program = connect(egressPath(runtime, id))
      program.on('error', () => {}).write('alias a.test 7000\n\0hello')
      return program
    },
    async [Symbol.asyncDispose]() {
      await network[Symbol.asyncDispose]()
      server.close()
      await rm(runtime, { recursive: true })
    },
  }
}

test('while something goes over, the log says now and then how much, and says nothing twice', async () => {
  await using made = await makeNetwork(20)
  const { network, events, pins } = made
  const carried = () => events.filter(({ type }) => type === 'EgressCarried')
  await network.set({ ...nothing, mode: 'restricted', pins })
  const program = made.program()
  const hosts = [{ host: 'a.test', connections: 1, bytes: 12 }]
  await expect.poll(() => carried().at(-1)).toEqual({ type: 'EgressCarried', hosts })
  const before = carried().length
  await new Promise((done) => setTimeout(done, 100))
  expect(carried()).toHaveLength(before)
  program.destroy()
})

test('where nobody could be made to listen for a host is on record, once while it is so', async () => {
  let unheard: readonly string[] = ['a.test:7000']
  await using made = await makeNetwork(undefined, () => unheard)
  const { network, events, pins } = made
  const notes = () => events.flatMap((event) => (event.type === 'Note' ? [event.text] : []))
  for (const allow of [['b.test'], ['c.test']])
    await network.set({ ...nothing, mode: 'restricted', pins, allow })
  expect(notes()).toEqual([expect.stringMatching(/^a\.test:7000: reached through the proxy only; /)])
  unheard = []
  await network.set({ ...nothing, mode: 'restricted', pins })
  expect(notes()).toHaveLength(1)
})

test('what was let out before a change stands in the log before it, and nothing of it behind', async () => {
  await using made = await makeNetwork()
  const { network, events, pins } = made
  await network.set({ ...nothing, mode: 'restricted', pins })
  for (let turn = 0; turn < 3; turn++) {
    const program = made.program()
    await once(program, 'data')
    program.destroy()
  }
  await network.set({ ...nothing, mode: 'none' })
  const mark = events.length
  const letOut = (some: readonly EventBody[]) =>
    some.flatMap((event) => (event.type === 'EgressDecided' && event.allowed ? [event.count ?? 1] : []))
  expect(letOut(events)).toEqual([1, 2])
  made.program()
  await expect.poll(() => events.length).toBeGreaterThan(mark)
  await network[Symbol.asyncDispose]()
  expect(letOut(events.slice(mark))).toEqual([])
})
