import { spawn } from 'node:child_process'
import { Socket as DatagramSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect, createServer, Server, type ServerOpts, Socket } from 'node:net'
import { join } from 'node:path'
import { proxyPort, type RunningSandbox } from '../../src/engine/base/sandbox.ts'
import { aliasesFor, parseOutputs, startBroker, type Caps } from '../../src/engine/egress/index.ts'
import { answerOf, endOf } from './outside.ts'
import type { World } from './world.ts'

export type Rules = NonNullable<Parameters<typeof parseOutputs>[0]>

type Decision = { readonly host: string; readonly why: string }

/** A sandbox's way out: the relay inside, and the broker that decides. */
export type Channel = {
  /** What the broker was asked for, in its own record: that a question came as far as it. */
  readonly decided: readonly Decision[]
  setRules(rules: Rules): Promise<void>
  close(): Promise<void>
}

type Opening = {
  readonly rules: Rules
  /** What every name resolves to. */
  readonly address: string
  readonly caps?: Partial<Caps> | undefined
  readonly socketPath?: string
}

const socketOf = (world: World) => join(world.ground.folder, 'b.sock')

export async function openChannel(
  world: World,
  sandbox: RunningSandbox,
  { rules, address, caps = {}, socketPath = socketOf(world) }: Opening,
): Promise<Channel> {
  const decided: Decision[] = []
  const policy = parseOutputs(rules)
  const resolver = async () => [address]
  const onDecision = (decision: Decision) => void decided.push(decision)
  const broker = await startBroker({ socketPath, policy, resolver, onDecision, caps })
  world.defer(() => broker.close())
  await sandbox.startRelay(socketPath, aliasesFor(policy), (relay) => broker.adopt(relay))
  return {
    decided,
    setRules: async (next) => broker.setPolicy(parseOutputs(next)),
    close: () => broker.close(),
  }
}

/** What a broker in a process of its own is told at its start. The first of them is the sandbox's. */
export type Apart = {
  readonly address: string
  readonly brokers: readonly {
    readonly socketPath: string
    readonly rules: Rules
    readonly caps?: Partial<Caps> | undefined
  }[]
}
export type ToBroker = { readonly rules?: Rules }
type FromBroker = { readonly decided?: Decision; readonly changed?: true; readonly ready?: true }

/** The same with the broker behind a command that gives it a network or limits of its own. */
export async function openChannelApart(
  world: World,
  sandbox: RunningSandbox,
  enter: readonly string[],
  { rules, address, caps, socketPath = socketOf(world) }: Opening,
  neighbours: Apart['brokers'] = [],
): Promise<Channel> {
  const settings: Apart = { address, brokers: [{ socketPath, rules, caps }, ...neighbours] }
  const program = join(import.meta.dirname, 'brokerApart.main.ts')
  const node = [process.execPath, '--disable-warning=ExperimentalWarning', program, JSON.stringify(settings)]
  const [file = '', ...args] = [...enter, ...node]
  const child = spawn(file, args, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  world.defer(() => endOf(child))
  await answerOf(child, 'no broker in a process of its own')
  const decided: Decision[] = []
  let changed = Promise.withResolvers<void>()
  child.on('message', (message: FromBroker) => {
    if (message.decided !== undefined) decided.push(message.decided)
    if (message.changed === true) changed.resolve()
  })
  await sandbox.startRelay(socketPath, aliasesFor(parseOutputs(rules)), (relay) => {
    relay.on('message', (message: object, handle) => {
      const isOpen = handle instanceof Server || handle instanceof DatagramSocket
      // Who is quick enough comes to our copy of a listener, and is the broker's all the same.
      if (handle instanceof Server)
        handle.on('connection', (client: Socket) => void (child.connected && child.send(message, client)))
      if (!child.connected) return
      const passed = handle instanceof Socket || isOpen ? handle : undefined
      child.send(message, passed, {}, () => {
        if (isOpen) handle.close()
      })
    })
    child.on('message', (message: object) => {
      const isOurs = 'decided' in message || 'changed' in message
      if (!isOurs && relay.connected) relay.send(message, () => {})
    })
  })
  return {
    decided,
    setRules: async (next) => {
      changed = Promise.withResolvers()
      child.send({ rules: next } satisfies ToBroker)
      await changed.promise
    },
    close: () => endOf(child),
  }
}

/** Asks the proxy for a tunnel, says a word into it (a byte no server would take for a protocol), and leaves a sign. */
export const connectBy = (target: string, sign: string, word = '"\\0"') =>
  `perl -e 'use Socket; $SIG{PIPE} = "IGNORE"; socket(S, PF_INET, SOCK_STREAM, 0); if (connect(S, ${proxyPlace})) { syswrite(S, "${tunnelTo(target)}"); sysread(S, $b, 999); syswrite(S, ${word}); sysread(S, $b, 999) } open(T, ">", "$ENV{HOME}/${sign}")'`

export const tunnelTo = (target: string) => `CONNECT ${target} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n`

/** For perl, with `use Socket`. */
export const proxyPlace = `pack_sockaddr_in(${proxyPort}, inet_aton("127.0.0.1"))`

/** Waits for a sign from outside. */
export const awaitSign = (sign: string, seconds = 5) =>
  `n=0; while [ ! -e ~/${sign} ] && [ $n -lt ${seconds * 100} ]; do sleep 0.01; n=$((n+1)); done`

export async function serve(
  world: World,
  where: object,
  onConnection: (socket: Socket) => void,
  options: ServerOpts = {},
): Promise<Server> {
  const sockets = new Set<Socket>()
  const server = createServer(options, (socket) => {
    sockets.add(socket)
    socket.on('error', () => socket.destroy())
    onConnection(socket)
  }).listen(where)
  await once(server, 'listening')
  world.defer(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise<void>((resolve) => void server.close(() => resolve()))
  })
  return server
}

type Join = (client: Socket, upstream: Socket) => void

/** A control: a proxy that lets everything through to one server, and joins the two carelessly. */
export function carryUnread(client: Socket, port: number, join: Join): void {
  let asked = ''
  const onData = (bytes: Buffer) => {
    asked += bytes.toString('latin1')
    if (!asked.includes('\r\n\r\n')) return
    client.off('data', onData)
    client.write('HTTP/1.1 200 Fine\r\n\r\n')
    const upstream = connect(port, '127.0.0.1')
    upstream.on('error', () => client.destroy())
    client.on('close', () => upstream.destroy())
    join(client, upstream)
  }
  client.on('data', onData)
}
