import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import type { Server } from 'node:net'
import type { World } from './world.ts'

/** Where the servers of it are. Nothing of it is really asked: the network is one of our own. */
export const places = {
  greeting: '1.2.3.5',
  /** Public, so that the check of addresses has nothing against it. */
  server: '1.2.3.4',
  metadata: '169.254.169.254',
  /** That, written for an address translator. */
  translatedMetadata: '64:ff9b::a9fe:a9fe',
} as const

export const hasIpv6 = existsSync('/proc/net/if_inet6')

const routed = { near: '10.77.0.2', far: '10.77.0.1', near6: 'fd77::2', far6: 'fd77::1' } as const

const servers = Object.values(places)
  .filter((address) => hasIpv6 || !address.includes(':'))
  .map((address) => `ip address add ${address}/${address.includes(':') ? '128 nodad' : '32'} dev lo`)
  .join(' && ')

// The listening socket is ours afterwards; the process stays for its network to stay.
const listening = `
  const server = require('net').createServer().listen(0, () => process.send('listening', server, () => server.close()))
  process.once('disconnect', () => process.exit())`

const link = [
  'ip link set lo up',
  'ip link add name near type veth peer name far netns "$0"',
  `ip address add ${routed.near}/30 dev near`,
  ...(hasIpv6 ? [`ip address add ${routed.near6}/64 nodad dev near`] : []),
  'ip link set near up',
  `nsenter -t "$0" -n sh -c 'ip address add ${routed.far}/30 dev far${hasIpv6 ? ` && ip address add ${routed.far6}/64 nodad dev far` : ''} && ip link set far up'`,
  `ip route add default via ${routed.far}`,
  ...(hasIpv6 ? [`ip -6 route add default via ${routed.far6}`] : []),
].join(' && ')

/** A network with servers behind a router, in which a broker that dials the wrong address arrives at one. */
export type Outside = {
  /** What a command begins with that is to stand before the router. */
  readonly enter: readonly string[]
  /** Of every server. */
  readonly port: number
  readonly server: Server
  /** Whom somebody has come to. */
  readonly reached: readonly string[]
}

/** On this machine alone such a server would be an own address, which another rule refuses: so it is a machine of its own. */
export async function makeOutside(world: World): Promise<Outside> {
  const far = spawn(
    'unshare',
    ['-Urn', 'sh', '-c', `ip link set lo up && ${servers} && exec "$0" -e "$1"`, process.execPath, listening],
    { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] },
  )
  world.defer(() => endOf(far))
  const [, handle] = await answerOf(far, 'no network of its own')
  const server = handle as Server
  const reached: string[] = []
  server.on('connection', (socket) => {
    reached.push((socket.localAddress ?? '').replace(/^::ffff:(?=\d+\.)/, ''))
    socket.on('error', () => {})
    socket.resume()
    socket.end('welcome\n')
  })
  world.defer(() => new Promise<void>((resolve) => void server.close(() => resolve())))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the servers listen nowhere')
  const enter = ['nsenter', '-t', String(far.pid), '-U', '--preserve-credentials', 'unshare', '-n']
  return {
    enter: [...enter, 'sh', '-c', `${link} && exec "$@"`, String(far.pid)],
    port: address.port,
    server,
    reached,
  }
}

/** The first message of a program that we started, or why there will be none. */
export async function answerOf(child: ChildProcess, failure: string): Promise<readonly unknown[]> {
  const failed = Promise.race([once(child, 'exit'), once(child, 'error')]).then((): never => {
    throw new Error(failure)
  })
  failed.catch(() => {})
  return Promise.race([once(child, 'message'), failed])
}

export async function endOf(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}
