import { chmod, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import type { NetworkUse } from '../../shared/effective.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { parseCredential, type CredentialGrant } from './credentials.ts'
import { defaultCaps, Gate, Unreachable, type Caps, type Decided } from './gate.ts'
import { createHttpSide } from './http.ts'
import { normaliseHost } from './names.ts'
import type { EgressPolicy } from './policy.ts'
import { readUntil } from './reading.ts'
import { memoisedResolver, type Resolver } from './resolver.ts'
import { encodeReply, parseGreeting, parseRequest, socksReply } from './socks.ts'
import { carry, openPassage, refusePlain, statusOf, type HttpHandover } from './tunnel.ts'
import { readLine } from './wire.ts'

export type BrokerOptions = {
  /** One socket per sandbox: whoever reaches it is that sandbox. */
  readonly socketPath: string
  readonly policy: EgressPolicy
  readonly onDecision: (decided: Decided) => void
  readonly resolver?: Resolver
  readonly caps?: Partial<Caps>
  readonly credentials?: readonly CredentialGrant[]
}

export interface Broker extends AsyncDisposable {
  setPolicy(policy: EgressPolicy): void
  usage(): NetworkUse
  close(): Promise<void>
}

export async function startBroker(options: BrokerOptions): Promise<Broker> {
  const caps = { ...defaultCaps, ...options.caps }
  const gate = new Gate(options.policy, caps, options.resolver ?? memoisedResolver(), options.onDecision)
  const credentials = (options.credentials ?? []).map(parseCredential)
  const http = createHttpSide(gate, () => credentials, caps.handshakeMs)
  const clients = new Set<Socket>()

  const server = createServer({ allowHalfOpen: true }, (client) => {
    clients.add(client)
    client.once('close', () => clients.delete(client))
    client.on('error', () => client.destroy())
    // Half-open and mute connections count too; beyond this there is not even a polite answer.
    if (clients.size > caps.connections * 2) return void client.destroy()
    void serve(client).catch(() => client.destroy())
  })

  async function serve(client: Socket): Promise<void> {
    const opening = await readUntil(client, readLine, caps.handshakeMs)
    if (opening === null) return void client.destroy()
    if (opening.kind === 'alias') return serveAlias(client, opening.host, opening.port)
    const first = await readUntil(client, firstByte, caps.handshakeMs)
    if (first === null) return void client.destroy()
    if (first === 5) return serveSocks(gate, client, caps.handshakeMs, http.serveTunnel)
    http.serveProxy(client)
  }

  async function serveAlias(client: Socket, host: string, port: number): Promise<void> {
    try {
      const target = { host: normaliseHost(host) ?? host, port }
      const passage = await openPassage(gate, client, target, 'alias')
      await carry(gate, client, passage, caps.handshakeMs, http.serveTunnel)
    } catch (error) {
      await refusePlain(client, statusOf(error).text)
    }
  }

  await rm(options.socketPath, { force: true })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ path: options.socketPath, backlog: 4096 }, resolve)
  }).catch((error: NodeJS.ErrnoException) => {
    throw new OrangeryError(
      'egress.no_socket',
      `egress broker: cannot listen on ${options.socketPath} (${error.code ?? 'failed'})`,
      { kind: 'cannot_create', cause: error },
    )
  })
  await chmod(options.socketPath, 0o600)
  const watch = setInterval(() => gate.enforceCaps(), 500)
  watch.unref()

  const close = async () => {
    clearInterval(watch)
    gate.close()
    for (const client of clients) client.destroy()
    await new Promise<void>((resolve) => server.close(() => resolve()))
    await rm(options.socketPath, { force: true })
  }
  return {
    setPolicy: (policy) => gate.setPolicy(policy),
    usage: () => gate.usage(),
    close,
    [Symbol.asyncDispose]: close,
  }
}

const firstByte = (bytes: Buffer) => ({ value: bytes[0] ?? 0, used: 0 })

async function serveSocks(
  gate: Gate,
  client: Socket,
  handshakeMs: number,
  toHttp: HttpHandover,
): Promise<void> {
  const open = await readUntil(client, parseGreeting, handshakeMs)
  if (open !== true) return void client.end(Buffer.from([5, 0xff]))
  client.write(Buffer.from([5, 0]))
  const asked = await readUntil(client, parseRequest, handshakeMs)
  if (asked === null) return void client.destroy()
  if (asked.kind === 'bad') return void client.end(encodeReply(asked.reply))
  try {
    const passage = await openPassage(gate, client, asked.target, 'socks')
    client.write(encodeReply(socksReply.ok))
    await carry(gate, client, passage, handshakeMs, toHttp)
  } catch (error) {
    client.end(encodeReply(replyOf(error)))
  }
}

function replyOf(error: unknown): number {
  if (!(error instanceof Unreachable)) return socksReply.refused
  return error.code === 'ECONNREFUSED' ? socksReply.connectionRefused : socksReply.unreachable
}
