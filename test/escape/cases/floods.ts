import { existsSync } from 'node:fs'
import { mkdir, readFile } from 'node:fs/promises'
import { connect, type AddressInfo, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { defaultCaps } from '../../../src/engine/egress/index.ts'
import { makeGround, startOn } from '../../../src/engine/sandbox/fixture.ts'
import type { EscapeCase } from '../case.ts'
import {
  carryUnread,
  connectBy,
  openChannel,
  openChannelApart,
  proxyPlace,
  serve,
  tunnelTo,
  type Channel,
} from '../channel.ts'
import { staying } from '../staying.ts'
import type { World } from '../world.ts'
import { listen } from './ipc.ts'

const loopback = { port: 0, host: '127.0.0.1' }

/** A server of the host, and where a pin leads to it. */
async function pinned(
  world: World,
): Promise<{ readonly server: Server; readonly pin: string; came(): boolean }> {
  const { server, came } = await listen(world, loopback)
  return { server, pin: `127.0.0.1:${(server.address() as AddressInfo).port}`, came }
}

const patienceMs = 5000

/** Whether somebody on the host who speaks to a broker's socket gets as far as the server of that name. */
async function isServed(socketPath: string, host: string, came: () => boolean): Promise<boolean> {
  const socket = connect(socketPath)
  socket.on('error', () => {})
  socket.once('data', () => socket.write('\0'))
  socket.write(`proxy\nCONNECT ${host}:80 HTTP/1.1\r\nHost: x\r\n\r\n`)
  const end = performance.now() + patienceMs
  while (!came() && !socket.destroyed && performance.now() < end) await sleep(10)
  socket.destroy()
  return came()
}

const otherChannel: EscapeCase = {
  id: 'egress-other-channel',
  group: 'Network',
  attack: "speaks to the broker of another sandbox, by its socket, and asks its own for the other's hosts",
  guard: "the broker's socket is not in the view, and each broker has the rules of one sandbox",
  claim: 'blocked',
  stage: async (world) => {
    const [own, theirs, check] = [await pinned(world), await pinned(world), await pinned(world)]
    const other = await makeGround()
    const folder = join(other.folder, 'channel')
    const socketPath = join(folder, 'b.sock')
    await mkdir(folder)
    world.defer(async () => other[Symbol.asyncDispose]())
    const request = other.request(['sleep', '300'], { network: 'broker' })
    const { sandbox: neighbour } = await startOn(other, request, world.host)
    world.defer(async () => neighbour.kill())
    const rules = { pins: { 'theirs.test': theirs.pin, 'check.test': check.pin } }
    await openChannel(world, neighbour, { rules, address: '127.0.0.1', socketPath })
    neighbour.release()
    const ways = ['', '/proc/self/root', '/proc/1/root', `/proc/${neighbour.pid}/root`]
    const bySocket = `for $w (${ways.map((way) => `"${way}"`).join(', ')}) { socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un("$w${socketPath}")) or next; syswrite(S, "proxy\\n${tunnelTo('theirs.test:80')}"); sysread(S, $b, 999); syswrite(S, "\\0"); sysread(S, $b, 999) }`
    let channel: Channel | null = null
    return {
      probe: `${connectBy('own.test:80', 'said')}; ${connectBy('theirs.test:80', 'asked')}; perl -e 'use Socket; $SIG{PIPE} = "IGNORE"; ${bySocket} open(T, ">", "$ENV{HOME}/knocked")'`,
      escaped: theirs.came,
      // Its own way out works, and so does the other one for who is let near it.
      tried: async () =>
        own.came() &&
        channel?.decided.some(({ host }) => host === 'theirs.test') === true &&
        existsSync(join(world.ground.home, 'knocked')) &&
        (await isServed(socketPath, 'check.test', check.came)),
      request: { network: 'broker' },
      control: 'sandbox',
      controlRequest: { grants: [folder] },
      attach: async (sandbox) => {
        channel = await openChannel(world, sandbox, {
          rules: { pins: { 'own.test': own.pin } },
          address: '127.0.0.1',
        })
      },
    }
  },
}

/** Connections that were begun in the probe's network, as its kernel counts them. */
async function connectionsBegun(world: World): Promise<number> {
  const [pid = 0] = await world.processes()
  const lines = (await readFile(`/proc/${pid}/net/snmp`, 'utf8').catch(() => '')).split('\n')
  const [names = [], values = []] = lines
    .filter((line) => line.startsWith('Tcp: '))
    .map((line) => line.split(' '))
  return Number(values[names.indexOf('ActiveOpens')] ?? 0)
}

const [children, each] = [20, 500] as const
const notForLong = 10 * 60_000
// More than the broker has places, and less than are asked for.
const openFiles = defaultCaps.connections * 2 + 1000

const manyConnections: EscapeCase = {
  id: 'egress-many-connections',
  group: 'Network',
  attack:
    'opens ten thousand connections to its broker and keeps them, mute or half-way through a word, for others to find none',
  guard: 'a broker has a number of places and turns away whoever comes beyond them',
  claim: 'blocked',
  stage: async (world) => {
    const [own, next] = [await pinned(world), await pinned(world)]
    const neighbour = join(world.ground.folder, 'n.sock')
    const flood = `use Socket; $SIG{PIPE} = "IGNORE"; for $c (1..${children}) { next if fork; for (1..${each}) { socket(my $s, PF_INET, SOCK_STREAM, 0); connect($s, ${proxyPlace}); $_ % 2 and syswrite($s, "CONNECT own"); push @s, $s } open(T, ">", "$ENV{HOME}/made-$c"); sleep 300; exit } sleep 300`
    return {
      probe: `${connectBy('own.test:80', 'said')}; perl -e '${flood}' ${world.mark} & n=0; until [ -e ~/made-${children} ] && [ "$(echo ~/made-* | wc -w)" = ${children} ] || [ $n = 3000 ]; do sleep 0.01; n=$((n+1)); done`,
      live: true,
      patienceMs: 90_000,
      // Where the supervisor has nothing left to open, another sandbox is not served.
      escaped: async () => !(await isServed(neighbour, 'next.test', next.came)),
      tried: async () => own.came() && (await connectionsBegun(world)) > children * each,
      request: { network: 'broker' },
      control: 'sandbox',
      attach: async (sandbox, guarded) => {
        const caps = { handshakeMs: notForLong, ...(guarded ? {} : { connections: 1_000_000 }) }
        const enter = ['sh', '-c', `ulimit -n ${openFiles} && exec "$@"`, 'sh']
        const opening = { rules: { pins: { 'own.test': own.pin } }, address: '127.0.0.1', caps }
        const others = [{ socketPath: neighbour, rules: { pins: { 'next.test': next.pin } } }]
        await openChannelApart(world, sandbox, enter, opening, others)
      },
    }
  },
}

const places = 20

type Holding = {
  readonly id: string
  readonly attack: string
  readonly guard: string
  /** How many it takes, and what each does once it is connected, in perl. */
  readonly most: number
  readonly does: string
}

const leadsToSilence = `syswrite($s, "${tunnelTo('silent.test:80')}"); sysread($s, $b, 999); syswrite($s, "\\0"); shutdown($s, 1)`

/** Takes every place of its own broker; whether there are any later decides if the rest of the sandbox is cut off for good. */
const holding = ({ id, attack, guard, most, does }: Holding): EscapeCase => ({
  id,
  group: 'Network',
  attack,
  guard,
  claim: 'blocked',
  stage: async (world) => {
    const after = await pinned(world)
    const silent = await serve(world, loopback, () => {}, { allowHalfOpen: true })
    const pins = {
      'silent.test': `127.0.0.1:${(silent.address() as AddressInfo).port}`,
      'after.test': after.pin,
    }
    const taking = `use Socket; $SIG{PIPE} = "IGNORE"; for (1..${most}) { socket(my $s, PF_INET, SOCK_STREAM, 0); connect($s, ${proxyPlace}); push @s, $s; ${does} }`
    let channel: Channel | null = null
    return {
      // Whoever comes meanwhile is told that there is no place; some time later there is one, or never.
      probe: `${staying(world, taking)}; n=0; while [ ! -e ~/served ] && [ $n -lt 80 ]; do ${connectBy('after.test:80', 'asked')}; sleep 0.1; n=$((n+1)); done`,
      patienceMs: 60_000,
      escaped: () => !after.came(),
      tried: () =>
        channel?.decided.some(({ why }) => why === `more than ${most} connections at one time`) === true,
      request: { network: 'broker' },
      control: 'sandbox',
      attach: async (sandbox, guarded) => {
        const ms = guarded ? 1500 : notForLong
        const caps = { connections: places, handshakeMs: ms, halfClosedMs: ms }
        channel = await openChannel(world, sandbox, { rules: { pins }, address: '127.0.0.1', caps })
        after.server.once('connection', () => void world.ground.writeHome('served'))
      },
    }
  },
})

const mb = 1024 ** 2
const [offeredMb, boundMb] = [128, 64] as const

/** How much of what a server has was taken off it, once that does not change any more. */
async function taken(servers: readonly Socket[]): Promise<number> {
  const now = () =>
    servers.reduce((sum, { bytesWritten, writableLength }) => sum + bytesWritten - writableLength, 0)
  let [before, calm] = [-1, 0]
  for (let round = 0; calm < 5 && round < 100 && before <= boundMb * mb; round++) {
    await sleep(100)
    const bytes = now()
    calm = bytes === before && bytes > 0 ? calm + 1 : 0
    before = bytes
  }
  return before
}

const slowReader: EscapeCase = {
  id: 'egress-slow-reader',
  group: 'Network',
  attack: 'asks a server for much and never reads the answer, for the memory of its broker to fill with it',
  guard: 'the broker reads no more than the other side takes',
  claim: 'blocked',
  stage: async (world) => {
    const servers: Socket[] = []
    const server = await serve(world, loopback, (socket) => {
      servers.push(socket)
      let left = offeredMb
      const more = () => {
        while (left-- > 0 && socket.write(Buffer.alloc(mb)));
      }
      socket.on('drain', more)
      socket.once('data', more)
    })
    const { port } = server.address() as AddressInfo
    let most = 0
    return {
      probe: staying(
        world,
        `use Socket; socket(S, PF_INET, SOCK_STREAM, 0); connect(S, ${proxyPlace}); syswrite(S, "${tunnelTo('a.test:80')}"); sysread(S, $b, 99); syswrite(S, "\\0")`,
      ),
      live: true,
      escaped: async () => {
        most = await taken(servers)
        return most > boundMb * mb
      },
      tried: async () => most > mb / 16 && (await world.processes()).length > 0,
      request: { network: 'broker' },
      control: 'sandbox',
      attach: async (sandbox, guarded) => {
        if (guarded) {
          const rules = { pins: { 'a.test': `127.0.0.1:${port}` } }
          await openChannel(world, sandbox, { rules, address: '127.0.0.1' })
          return
        }
        const path = join(world.ground.folder, 'b.sock')
        await serve(world, { path }, (client) =>
          carryUnread(client, port, (one, other) => {
            one.pipe(other)
            // Whatever comes, whether it is read or not.
            other.on('data', (bytes) => void one.write(bytes))
          }),
        )
        await sandbox.startRelay(path, [])
      },
    }
  },
}

export const floods: readonly EscapeCase[] = [
  otherChannel,
  manyConnections,
  holding({
    id: 'egress-mute-connections',
    attack:
      'takes every place of its broker by connections on which it says nothing, for nobody to be served again',
    guard: 'who does not say in time where he wants to go is cut',
    most: places * 2,
    does: '1',
  }),
  holding({
    id: 'egress-half-requests',
    attack: 'takes every place of its broker by requests that stop in the middle of a word',
    guard: 'who does not say in time where he wants to go is cut',
    most: places * 2,
    does: 'syswrite($s, "CONNECT after")',
  }),
  holding({
    id: 'egress-half-open',
    attack:
      'takes every place of its broker by connections whose own side it has closed and whose server never says a word',
    guard: 'what only one side keeps open, without a byte on it, is cut after a while',
    most: places,
    does: leadsToSilence,
  }),
  slowReader,
]
