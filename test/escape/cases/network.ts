import { createSocket } from 'node:dgram'
import { readFile } from 'node:fs/promises'
import { networkInterfaces } from 'node:os'
import type { AddressInfo } from 'node:net'
import type { EscapeCase } from '../case.ts'
import { staying, stays } from '../staying.ts'
import type { World } from '../world.ts'
import { listen } from './ipc.ts'

const own = 'a network namespace of its own, in which there is only its own loopback'

const connectTo = (address: string, port: number) =>
  `perl -e 'use Socket; socket(S, PF_INET, SOCK_STREAM, 0); connect(S, pack_sockaddr_in(${port}, inet_aton("${address}"))); sysread(S, $b, 9)'`

export function hostAddress(): string | null {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? [])
  return all.find(({ family, internal }) => family === 'IPv4' && !internal)?.address ?? null
}

function tcp(id: string, attack: string, script: (port: number) => string, where: object): EscapeCase {
  return {
    id,
    group: 'Network',
    attack,
    guard: own,
    claim: 'blocked',
    stage: async (world) => {
      const { server, came } = await listen(world, { port: 0, ...where })
      return { probe: script((server.address() as AddressInfo).port), escaped: came }
    },
  }
}

/** Whoever has no capabilities of his own may have them in a namespace of his own. */
const orInNamespace = (world: World, code: string, before = ':') =>
  `unshare -Urn sh -c '${before}; exec perl -e "$0" ${world.mark}' '${code}; ${stays}' & settled $!; ${staying(world, code)}`

function socketKind(
  id: string,
  attack: string,
  kind: string,
  guard: string,
  probe: (world: World) => string,
): EscapeCase {
  return {
    id,
    group: 'Network',
    attack,
    guard,
    claim: 'blocked',
    stage: async (world) => ({
      probe: probe(world),
      live: true,
      escaped: async () => (await world.descriptors()).includes(`socket ${kind}`),
      tried: async () => (await world.processes()).length > 0,
    }),
  }
}

/** Echo requests that came to this machine. */
async function echoesHeard(): Promise<number> {
  const [names = [], values = []] = (await readFile('/proc/net/snmp', 'utf8'))
    .split('\n')
    .filter((line) => line.startsWith('Icmp: '))
    .map((line) => line.split(' '))
  return Number(values[names.indexOf('InEchos')])
}

// Type 8, code 0, its checksum, number 1, sequence 1.
const ping = `$e = pack("CCnnn", 8, 0, 0xf7fd, 1, 1); for (2, 3) { socket(S, 2, $_, 1) && send(S, $e, 0, pack_sockaddr_in(0, inet_aton("127.0.0.1"))) }`

const address = hostAddress()

export const network: readonly EscapeCase[] = [
  tcp(
    'tcp-loopback',
    "connects to a service on the host's loopback",
    (port) => connectTo('127.0.0.1', port),
    {
      host: '127.0.0.1',
    },
  ),
  tcp(
    'tcp-dev-tcp',
    'connects by the shell alone, with proxy variables unset',
    (port) => `env -u HTTP_PROXY -u ALL_PROXY bash -c 'exec 3<>/dev/tcp/127.0.0.1/${port}; read -r x <&3'`,
    { host: '127.0.0.1' },
  ),
  ...(address === null
    ? []
    : [
        tcp(
          'tcp-host-address',
          "connects to the host's address on its network",
          (port) => connectTo(address, port),
          {
            host: '0.0.0.0',
          },
        ),
      ]),
  {
    id: 'udp',
    group: 'Network',
    attack: 'sends datagrams (DNS tunnels, QUIC)',
    guard: own,
    claim: 'blocked',
    stage: async (world) => {
      const socket = createSocket('udp4')
      let heard = 0
      socket.on('message', () => heard++)
      await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve))
      world.defer(() => new Promise<void>((resolve) => socket.close(resolve)))
      const { port } = socket.address()
      return {
        probe: `perl -e 'use Socket; socket(S, PF_INET, SOCK_DGRAM, 0); send(S, "x", 0, pack_sockaddr_in(${port}, inet_aton("127.0.0.1")))'; sleep 0.1`,
        escaped: () => heard > 0,
      }
    },
  },
  {
    id: 'ping',
    group: 'Network',
    attack: 'sends echo requests (ICMP tunnels)',
    guard: own,
    claim: 'blocked',
    only: 'root',
    stage: async () => {
      const before = await echoesHeard()
      return {
        probe: `perl -e 'use Socket; ${ping}'; sleep 0.1`,
        escaped: async () => (await echoesHeard()) > before,
      }
    },
  },
  socketKind(
    'ping-socket',
    'opens a socket for echo requests, as ping does, also in a namespace of its own that allows it',
    'PING',
    'its network lets no group have them, and nested user namespaces are refused',
    (world) => orInNamespace(world, 'socket(S, 2, 2, 1)', 'echo 0 0 >/proc/sys/net/ipv4/ping_group_range'),
  ),
  socketKind(
    'raw-socket',
    'opens a raw socket (ICMP tunnels, spoofing), also in a namespace of its own',
    'RAW',
    'no capabilities, and nested user namespaces are refused',
    (world) => orInNamespace(world, 'socket(S, 2, 3, 1)'),
  ),
  socketKind(
    'packet-socket',
    'opens a packet socket to listen on interfaces, also in a namespace of its own',
    'PACKET',
    'seccomp allows unix, internet and netlink sockets only',
    (world) => orInNamespace(world, 'socket(S, 17, 3, 768)'),
  ),
  socketKind(
    'vsock',
    'opens a vsock, which reaches the hypervisor past any network namespace',
    'AF_VSOCK',
    'seccomp allows unix, internet and netlink sockets only',
    (world) => staying(world, 'socket(S, 40, 1, 0)'),
  ),
  {
    id: 'own-loopback',
    group: 'Network',
    attack: 'runs a server and a client of its own on loopback',
    guard: 'its own loopback is up',
    claim: 'allowed',
    stage: async (world) => ({
      probe: `perl -e 'use Socket; socket(L, PF_INET, SOCK_STREAM, 0); bind(L, pack_sockaddr_in(0, inet_aton("127.0.0.1"))); listen(L, 1); ($p) = unpack_sockaddr_in(getsockname(L)); if (!fork) { socket(S, PF_INET, SOCK_STREAM, 0); connect(S, pack_sockaddr_in($p, inet_aton("127.0.0.1"))); syswrite(S, "${world.secret}"); exit } accept(C, L); sysread(C, $b, 99); open(F, ">", "$ENV{HOME}/loot"); print F $b'`,
      escaped: async () => (await world.loot()).includes(world.secret),
    }),
  },
]
