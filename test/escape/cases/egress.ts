import { join } from 'node:path'
import type { AddressInfo } from 'node:net'
import { proxyPort } from '../../../src/engine/base/sandbox.ts'
import { aliasesFor, parseOutputs, startBroker } from '../../../src/engine/egress/index.ts'
import type { EscapeCase } from '../case.ts'
import { listen } from './ipc.ts'

type Rules = Parameters<typeof parseOutputs>[0]

/** Asks the proxy for a tunnel and says a word into it: a byte no server would take for a protocol. */
const connectBy = (target: string) =>
  `perl -e 'use Socket; $SIG{PIPE} = "IGNORE"; socket(S, PF_INET, SOCK_STREAM, 0); connect(S, pack_sockaddr_in(${proxyPort}, inet_aton("127.0.0.1"))) or exit; syswrite(S, "CONNECT ${target} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"); sysread(S, $b, 999); syswrite(S, "\\0"); sysread(S, $b, 999)'`

type Attack = {
  readonly id: string
  readonly attack: string
  readonly guard: string
  /** Rules with the guard and without it; the oracle listens on this port of loopback. */
  readonly rules: (port: number) => readonly [guarded: Rules, unguarded: Rules]
  readonly target: (port: number) => string
  /** What every name resolves to. */
  readonly address?: string
  readonly killBroker?: boolean
}

const throughBroker = ({ id, attack, guard, rules, target, address, killBroker }: Attack): EscapeCase => ({
  id,
  group: 'Network',
  attack,
  guard,
  claim: 'blocked',
  stage: async (world) => {
    const { server, came } = await listen(world, { port: 0, host: '127.0.0.1' })
    const { port } = server.address() as AddressInfo
    return {
      probe: connectBy(target(port)),
      escaped: came,
      request: { network: 'broker' },
      control: 'sandbox',
      attach: async (sandbox, guarded) => {
        const policy = parseOutputs(rules(port)[guarded ? 0 : 1])
        const socketPath = join(world.ground.folder, 'b.sock')
        const resolver = async () => [address ?? '127.0.0.1']
        const broker = await startBroker({ socketPath, policy, resolver, onDecision: () => {} })
        world.defer(() => broker.close())
        await sandbox.startRelay(socketPath, aliasesFor(policy), (relay) => broker.adopt(relay))
        if (killBroker === true && guarded) await broker.close()
      },
    }
  },
})

const byName = 'the broker matches whole normalised names, and nothing else leads out'
const byAddress = 'the broker dials only addresses it has checked: public ones, or those the user pinned'

export const egress: readonly EscapeCase[] = [
  throughBroker({
    id: 'egress-empty-list',
    attack: 'asks for a host where the list of allowed ones is empty',
    guard: byName,
    rules: (port) => [{ mode: 'restricted' }, { pins: { 'a.test': `127.0.0.1:${port}` } }],
    target: () => 'a.test:443',
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
