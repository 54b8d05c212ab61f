import { createSocket, type Socket as DatagramSocket } from 'node:dgram'
import { existsSync } from 'node:fs'
import type { AddressInfo, Server, Socket } from 'node:net'
import { join } from 'node:path'
import { Duplex } from 'node:stream'
import { connect as tlsConnect } from 'node:tls'
import { namePort, nameServer } from '../../../src/engine/base/sandbox.ts'
import { aliasesFor, parseOutputs, startBroker } from '../../../src/engine/egress/index.ts'
import type { EscapeCase } from '../case.ts'
import {
  awaitSign,
  carryUnread,
  connectBy,
  openChannel,
  openChannelApart,
  serve,
  type Channel,
  type Rules,
} from '../channel.ts'
import { hasIpv6, makeOutside, places } from '../outside.ts'
import type { World } from '../world.ts'
import { listen } from './ipc.ts'
import { hostAddress } from './network.ts'

const lanAddress = hostAddress()

type Attack = {
  readonly id: string
  readonly attack: string
  readonly guard: string
  /** Rules with the guard and without it; the oracle listens on this port of loopback. */
  readonly rules: (port: number) => readonly [guarded: Rules, unguarded: Rules]
  readonly target: (port: number) => string
  /** What every name resolves to. */
  readonly address?: string
  /** Where the oracle listens; on loopback unless said otherwise. */
  readonly listens?: string
  /** It listens at the address itself, in a network of its own with the broker. */
  readonly outside?: true
  readonly killBroker?: boolean
}

/** The one host of each attack that is let through at first: by this the channel is known to work. */
const greetingHost = 'greeting.test'

type Oracle = {
  readonly port: number
  /** Where the greeting goes. */
  readonly pin: string
  readonly onGreeted: (then: () => Promise<void>) => void
  greeted(): boolean
  came(): boolean
  readonly open: typeof openChannel
}

const portOf = (server: Server) => (server.address() as AddressInfo).port

async function loopbackOracle(world: World, listens: string): Promise<Oracle> {
  const target = await listen(world, { port: 0, host: listens })
  const greeting = await listen(world, { port: 0, host: '127.0.0.1' })
  return {
    port: portOf(target.server),
    pin: `127.0.0.1:${portOf(greeting.server)}`,
    onGreeted: (then) => void greeting.server.once('connection', () => void then()),
    greeted: greeting.came,
    came: target.came,
    open: openChannel,
  }
}

/** A broker that dials the address arrives there, which it would not on this machine. */
async function outsideOracle(world: World, address: string): Promise<Oracle> {
  const { enter, port, server, reached } = await makeOutside(world)
  return {
    port,
    pin: `${places.greeting}:${port}`,
    onGreeted: (then) => void server.once('connection', () => void then()),
    greeted: () => reached.includes(places.greeting),
    came: () => reached.includes(address),
    open: (inWorld, sandbox, opening) => openChannelApart(inWorld, sandbox, enter, opening),
  }
}

/** First it greets an allowed host; once that has arrived, only the rules of the attack hold, and it makes it. */
const throughBroker = ({
  id,
  attack,
  guard,
  rules,
  target,
  address = '127.0.0.1',
  listens = '127.0.0.1',
  outside,
  killBroker,
}: Attack): EscapeCase => ({
  id,
  group: 'Network',
  attack,
  guard,
  claim: 'blocked',
  stage: async (world) => {
    const oracle = await (outside === true ? outsideOracle(world, address) : loopbackOracle(world, listens))
    let channel: Channel | null = null
    // A broker that is gone has no record of what it was asked for.
    const wasAsked = () =>
      killBroker === true || channel?.decided.some(({ host }) => host !== greetingHost) === true
    return {
      probe: `${connectBy(`${greetingHost}:80`, 'said')}; ${awaitSign('greeted')}; ${connectBy(target(oracle.port), 'asked')}`,
      escaped: oracle.came,
      tried: () => oracle.greeted() && existsSync(join(world.ground.home, 'asked')) && wasAsked(),
      request: { network: 'broker' },
      control: 'sandbox',
      attach: async (sandbox, guarded) => {
        const attacked = rules(oracle.port)[guarded ? 0 : 1]
        const pins = { ...attacked.pins, [greetingHost]: oracle.pin }
        const opened = await oracle.open(world, sandbox, { rules: { ...attacked, pins }, address })
        channel = opened
        oracle.onGreeted(async () => {
          await (killBroker === true && guarded ? opened.close() : opened.setRules(attacked))
          await world.ground.writeHome('greeted')
        })
      },
    }
  },
})

/**
 * Says something into a tunnel to an allowed host that a front end of many hosts would take for another one; before that
 * the same to that host in honest words, which must arrive.
 */
const disguised = (
  id: string,
  attack: string,
  guard: string,
  word: (host: string) => Promise<Buffer>,
): EscapeCase => ({
  id,
  group: 'Network',
  attack,
  guard,
  claim: 'blocked',
  stage: async (world) => {
    const heard: Buffer[] = []
    const server = await serve(world, { port: 0, host: '127.0.0.1' }, (socket) => {
      socket.on('data', (bytes) => {
        heard.push(bytes)
        socket.end('welcome')
      })
    })
    const port = portOf(server)
    const socketPath = join(world.ground.folder, 'b.sock')
    const say = async (host: string, sign: string) =>
      connectBy('a.test:80', sign, `pack("H*", "${(await word(host)).toString('hex')}")`)
    const hears = (host: string) => Buffer.concat(heard).includes(host)
    let tunnels = () => 0
    return {
      probe: `${await say('a.test', 'said')}; ${await say('other.test', 'asked')}`,
      escaped: () => hears('other.test'),
      tried: () => hears('a.test') && tunnels() === 2 && existsSync(join(world.ground.home, 'asked')),
      request: { network: 'broker' },
      control: 'sandbox',
      attach: async (sandbox, guarded) => {
        if (!guarded) {
          let carried = 0
          tunnels = () => carried
          await serve(world, { path: socketPath }, (client) =>
            carryUnread(client, port, (one, other) => {
              carried++
              one.pipe(other).pipe(one)
            }),
          )
          await sandbox.startRelay(socketPath, [])
          return
        }
        const rules = { pins: { 'a.test': `127.0.0.1:${port}` } }
        const { decided } = await openChannel(world, sandbox, { rules, address: '127.0.0.1' })
        // What is refused in a tunnel is on record as a second word on it.
        tunnels = () => decided.filter(({ why }) => why.startsWith('pinned by')).length
      },
    }
  },
})

/** Asks the name server that the sandbox knows for an address, and waits for what it says. */
const askFor = (name: string) =>
  `perl -e 'use Socket; socket(S, PF_INET, SOCK_DGRAM, 0); $q = pack("n6", 7, 256, 1, 0, 0, 0); $q .= pack("C/a*", $_) for split(/[.]/, "${name}"); send(S, $q . pack("Cn2", 0, 1, 1), 0, pack_sockaddr_in(${namePort}, inet_aton("${nameServer}"))); $r = ""; vec($r, fileno(S), 1) = 1; select($r, undef, undef, 5)'`

/** A secret as part of a name: whoever answers for that name, anywhere, would hear it. */
const nameLookup: EscapeCase = {
  id: 'egress-name-lookup',
  group: 'Network',
  attack: 'asks for the address of a name that carries a secret, below an allowed host and elsewhere',
  guard: 'the broker answers questions for names by itself and asks nobody outside',
  claim: 'blocked',
  stage: async (world) => {
    const heard: string[] = []
    const refused: string[] = []
    const outside = createSocket('udp4').on('message', (message) => heard.push(message.toString('latin1')))
    await new Promise<void>((resolve) => outside.bind(0, '127.0.0.1', resolve))
    world.defer(() => new Promise<void>((resolve) => outside.close(resolve)))
    const socketPath = join(world.ground.folder, 'b.sock')
    return {
      probe: `${askFor(`${world.secret}.allowed.test`)}; ${askFor(`${world.secret}.other.test`)}; sleep 0.1`,
      escaped: () => heard.some((text) => text.includes(world.secret)),
      // That the question came as far as the broker is part of the record.
      tried: () => heard.length > 0 || refused.includes(`${world.secret}.other.test`),
      request: { network: 'broker' },
      control: 'sandbox',
      attach: async (sandbox, guarded) => {
        if (!guarded) {
          await serve(world, { path: socketPath }, (client) => askOutside(client, outside))
          await sandbox.startRelay(socketPath, [])
          return
        }
        const resolver = async (host: string) => {
          heard.push(host)
          return ['192.0.2.1']
        }
        const policy = parseOutputs({ allow: ['*.allowed.test'] })
        const onDecision = ({ host }: { host: string }) => void refused.push(host)
        const broker = await startBroker({ socketPath, policy, resolver, onDecision })
        world.defer(() => broker.close())
        await sandbox.startRelay(socketPath, aliasesFor(policy), (relay) => broker.adopt(relay))
      },
    }
  },
}

/** The control: a name server like any other, which passes each question on. */
function askOutside(client: Socket, outside: DatagramSocket): void {
  client.once('data', (bytes) => {
    if (!bytes.toString('latin1').startsWith('names\n')) return void client.destroy()
    outside.send(bytes.subarray('names\n'.length + 2), outside.address().port, '127.0.0.1')
    // No answer is an answer too: the secret is out by then.
    setTimeout(() => client.end(Buffer.from([0, 1, 0])), 50)
  })
}

/** The first bytes of TLS to a name. */
async function clientHello(servername: string): Promise<Buffer> {
  const { promise, resolve } = Promise.withResolvers<Buffer>()
  const wire = new Duplex({ read() {}, write: (bytes: Buffer) => resolve(bytes) })
  tlsConnect({ socket: wire, servername }).on('error', () => {})
  const bytes = await promise
  wire.destroy()
  return bytes
}

const byName = 'the broker matches whole normalised names, and nothing else leads out'
const byAddress = 'the broker dials only addresses it has checked: public ones, or those the user pinned'

export const egress: readonly EscapeCase[] = [
  throughBroker({
    id: 'egress-empty-list',
    attack: 'asks for a host where the list of allowed ones is empty',
    guard: byName,
    address: places.server,
    outside: true,
    rules: () => [{ mode: 'restricted' }, { allow: ['a.test'] }],
    target: (port) => `a.test:${port}`,
  }),
  throughBroker({
    id: 'egress-lookalike',
    attack: 'asks for a name that ends, or begins, like an allowed one',
    guard: byName,
    rules: (port) => {
      const pins = { 'example.test': `127.0.0.1:${port}`, '*.example.test': `127.0.0.1:${port}` }
      return [{ pins }, { pins: { ...pins, 'notexample.test': `127.0.0.1:${port}` } }]
    },
    target: () => 'notexample.test:443',
  }),
  throughBroker({
    id: 'egress-other-port',
    attack: 'asks for another port of an allowed host',
    guard: byName,
    rules: (port) => [
      { pins: { 'a.test:443': `127.0.0.1:${port}` } },
      { pins: { 'a.test': `127.0.0.1:${port}` } },
    ],
    target: () => 'a.test:8443',
  }),
  throughBroker({
    id: 'egress-rebinding',
    attack: 'asks for an allowed name that its owner lets resolve to loopback',
    guard: byAddress,
    rules: () => [{ mode: 'open' }, { pins: { 'a.test': '127.0.0.0/8' } }],
    target: (port) => `a.test:${port}`,
  }),
  throughBroker({
    id: 'egress-mapped-address',
    attack: 'lets a name resolve to loopback written as IPv6',
    guard: byAddress,
    address: '::ffff:127.0.0.1',
    rules: () => [{ mode: 'open' }, { pins: { 'a.test': '::ffff:0:0/96' } }],
    target: (port) => `a.test:${port}`,
  }),
  throughBroker({
    id: 'egress-numeric-host',
    attack: 'asks for loopback in a spelling only resolvers understand',
    guard: byAddress,
    rules: () => [{ mode: 'open' }, { pins: { '127.0.0.0/8': '127.0.0.0/8' } }],
    target: (port) => `0x7f.1:${port}`,
  }),
  ...(hasIpv6
    ? [
        throughBroker({
          id: 'egress-nat64-address',
          attack: 'lets a name resolve to the metadata service written for an address translator',
          guard: byAddress,
          address: places.translatedMetadata,
          outside: true,
          rules: () => [{ mode: 'open' }, { pins: { 'a.test': '64:ff9b::/96' } }],
          target: (port) => `a.test:${port}`,
        }),
      ]
    : []),
  throughBroker({
    id: 'egress-metadata-address',
    attack: 'lets a name resolve to the metadata service, which hands out credentials of the machine',
    guard: byAddress,
    address: places.metadata,
    outside: true,
    rules: () => [{ mode: 'open' }, { pins: { 'a.test': '169.254.0.0/16' } }],
    target: (port) => `a.test:${port}`,
  }),
  ...(lanAddress === null
    ? []
    : [
        throughBroker({
          id: 'egress-lan-address',
          attack:
            "lets a name resolve to the host's own address on its network, where services of the LAN are",
          guard: byAddress,
          address: lanAddress,
          listens: '0.0.0.0',
          rules: () => [{ mode: 'open' }, { pins: { 'a.test': `${lanAddress}/32` } }],
          target: (port) => `a.test:${port}`,
        }),
      ]),
  nameLookup,
  disguised(
    'egress-host-header',
    'asks an allowed host, behind an empty line, for a page of another one that the same front end serves',
    'the broker reads plain HTTP itself and compares the Host header, however the request is dressed up',
    async (host) => Buffer.from(`\r\nGET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`),
  ),
  disguised(
    'egress-server-name',
    'opens TLS for another name in a tunnel to an allowed host',
    'the broker compares the server name of the ClientHello with the host of the tunnel',
    clientHello,
  ),
  throughBroker({
    id: 'egress-dead-broker',
    attack: 'asks for an allowed host when the broker is gone',
    guard: 'without the broker nothing listens in the sandbox, and nothing leads out',
    rules: (port) => {
      const pins = { 'a.test': `127.0.0.1:${port}` }
      return [{ pins }, { pins }]
    },
    target: () => 'a.test:443',
    killBroker: true,
  }),
]
