import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect } from 'vitest'
import type { Outputs } from '../../../shared/spec.ts'
import { startBroker, type Broker, type BrokerOptions } from '../broker.ts'
import type { Decided } from '../gate.ts'
import { parseOutputs } from '../rules/policy.ts'

/** A listener that remembers who came: the oracle of every refusal. */
export type Oracle = {
  readonly port: number
  readonly seen: Buffer[]
  connections: number
  readonly sockets: Set<Socket>
}

export type Setup = { readonly broker: Broker; readonly decisions: Decided[]; readonly path: string }

/** A broker, programs that talk to it and servers behind it, all real; gone after each test. */
export type Ground = {
  /** Undone after the test, the last first. */
  defer(step: () => unknown): void
  folder(): string
  listen(onConnection?: (socket: Socket) => void): Promise<Oracle>
  echo(): Promise<Oracle>
  broker(outputs: Outputs, options?: Partial<BrokerOptions>): Promise<Setup>
  /** Connects to a broker's socket with the line a relay would say. */
  open(path: string, line: string): Promise<Socket>
  /** Sends bytes and gives everything that came back until the other side ended. */
  ask(path: string, line: string, bytes: string | Buffer): Promise<string>
  tunnel(path: string, target: string): Promise<Socket>
}

export function useGround(): Ground {
  let dir = ''
  let cleanup: (() => unknown)[] = []
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'egress-'))
  })
  afterEach(async () => {
    for (const step of cleanup.reverse()) await step()
    cleanup = []
    await rm(dir, { recursive: true, force: true })
  })

  const ground: Ground = {
    defer: (step) => cleanup.push(step),
    folder: () => dir,
    async listen(onConnection = () => {}) {
      const oracle = { port: 0, seen: [] as Buffer[], connections: 0, sockets: new Set<Socket>() }
      const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
        oracle.connections++
        oracle.sockets.add(socket)
        socket.on('error', () => {})
        socket.on('data', (chunk) => oracle.seen.push(chunk))
        onConnection(socket)
      }).listen(0, '127.0.0.1')
      await once(server, 'listening')
      cleanup.push(() => {
        for (const socket of oracle.sockets) socket.destroy()
        server.close()
      })
      return Object.assign(oracle, { port: (server.address() as AddressInfo).port })
    },
    echo: () => ground.listen((socket) => socket.pipe(socket)),
    async broker(outputs, options = {}) {
      const decisions: Decided[] = []
      const path = join(dir, 'b.sock')
      const started = await startBroker({
        socketPath: path,
        policy: parseOutputs(outputs),
        onDecision: (decided) => decisions.push(decided),
        ...options,
      })
      cleanup.push(() => started.close())
      return { broker: started, decisions, path }
    },
    async open(path, line) {
      const socket = connect({ path, allowHalfOpen: true })
      socket.on('error', () => {})
      await once(socket, 'connect')
      socket.write(`${line}\n`)
      cleanup.push(() => socket.destroy())
      return socket
    },
    async ask(path, line, bytes) {
      const socket = await ground.open(path, line)
      socket.write(bytes)
      return (await readAll(socket)).toString('latin1')
    },
    async tunnel(path, target) {
      const socket = await ground.open(path, 'proxy')
      socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`)
      expect(await readSome(socket, (text) => text.endsWith('\r\n\r\n'))).toMatch(/^HTTP\/1.1 200 /)
      return socket
    },
  }
  return ground
}

/** Answers the first word with a small page. */
export const hello = (text: string) => (socket: Socket) => {
  socket.once('end', () => socket.end())
  socket.once('data', () => socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`))
}

export async function readAll(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  await new Promise((done) => {
    socket.once('end', done)
    socket.once('close', done)
    socket.resume()
  })
  return Buffer.concat(chunks)
}

export async function readSome(socket: Socket, enough: (text: string) => boolean): Promise<string> {
  let text = ''
  socket.resume()
  while (!enough(text)) {
    const [chunk] = (await once(socket, 'data')) as [Buffer]
    text += chunk.toString('latin1')
  }
  socket.pause()
  return text
}
