import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Row } from '../row.ts'
import { tree } from '../trees.ts'
import { warmEngine } from '../warmEngine.ts'

/** Connects again and again, and says a byte whenever it can: what a program does that waits for its host. */
const insist = `use Socket; $SIG{PIPE} = "IGNORE"; while (1) {
  if (my $to = inet_aton("peer.example")) {
    socket(S, PF_INET, SOCK_STREAM, 0);
    if (connect(S, pack_sockaddr_in(7000, $to))) { syswrite(S, "\\0"); sysread(S, $b, 1) }
    close S }
  select(undef, undef, undef, 0.002) }`

const approval: Row = {
  name: 'boundary: from an approval on record to the first byte of the running agent outside (50 ms are allowed)',
  samples: 10,
  async prepare(scope) {
    let waiting: ((at: number) => void) | undefined
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => {
        waiting?.(Date.now())
        socket.end('.')
      })
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    scope.defer(() => void server.close())
    const { port } = server.address() as AddressInfo
    const { client } = await warmEngine(scope)
    const outputs = { allow: ['peer.example:7000'], pins: { 'peer.example:7000': `127.0.0.1:${port}` } }
    const { id } = await client.call('dispatch.spawn', {
      command: ['perl', '-e', insist],
      roots: [await tree(10)],
      sandbox_spec: JSON.stringify({ outputs: { mode: 'restricted', ...outputs }, boundary: 'readwrite' }),
    })
    scope.defer(async () => void (await client.call('dispatch.kill', { id })))
    while ((await client.call('dispatch.get', { id })).status === 'starting') await sleep(20)
    return {
      subject: {
        name: 'orangery',
        async sample() {
          const request = await client.call('boundary.request', { id, to: 'network', reason: 'measured' })
          const arrived = new Promise<number>((resolve) => (waiting = resolve))
          const [answered] = await client.call('boundary.approve', { id, request: request.id })
          return (await arrived) - Date.parse(answered?.answer?.at ?? '')
        },
        async reset() {
          await client.call('boundary.narrow', { id, to: 'readwrite' })
        },
      },
      peers: [{ name: '50 ms', sample: async () => 50 }],
      limits: [{ against: '50 ms', atMost: 1 }],
    }
  },
}

export const rows = [approval]
