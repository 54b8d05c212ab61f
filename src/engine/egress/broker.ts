import type { ChildProcess } from 'node:child_process'
import { Socket as DatagramSocket } from 'node:dgram'
import { chmodSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createServer, Socket, type Server } from 'node:net'
import { z } from 'zod'
import type { NetworkUse } from '../../shared/effective.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { mostOpenFiles } from '../base/openFiles.ts'
import { aliasesFor } from './rules/aliases.ts'
import type { Authority } from './tls/authority.ts'
import { defaultCaps, type Caps } from './rules/caps.ts'
import { opensTls, parseCredential, type CredentialGrant } from './rules/credentials.ts'
import { Unreachable } from './dial/failures.ts'
import { Gate, type BeforeDenial, type Decided } from './gate.ts'
import { createHttpSide } from './http/http.ts'
import { lastWords, partInOrder } from './line/lastWords.ts'
import { aliasesWithin, Lookups } from './lookups/lookups.ts'
import { normaliseHost, type Target } from './rules/names.ts'
import { answerDatagram, serveDatagrams, serveQuestions } from './lookups/nameServer.ts'
import type { EgressPolicy } from './rules/policy.ts'
import { readUntil } from './line/reading.ts'
import { hangUp, resetBy } from './dial/endings.ts'
import { memoisedResolver, type Resolver } from './lookups/resolver.ts'
import {
  encodeReply,
  oldRefusal,
  parseGreeting,
  parseOldRequest,
  parseRequest,
  socksReply,
} from './dial/socks.ts'
import { tellWith, type Tell, type TellWhy } from './telling.ts'
import { upstreamTrust } from './tls/trust.ts'
import type { Proxies } from './dial/upstream.ts'
import { carry, openPassage, refusePlain, type Readers } from './dial/tunnel.ts'
import { RelayLine } from './line/relayLine.ts'
import { isLasting, listenerKeys, openKeys, readLine, type Opening } from './line/wire.ts'

export type BrokerOptions = {
  /** One socket per sandbox: whoever reaches it is that sandbox. */
  readonly socketPath: string
  readonly policy: EgressPolicy
  readonly onDecision: (decided: Decided) => void
  /** Called before a missing host is denied; the connection waits for it, and the policy then decides anew. */
  readonly beforeDenial?: BeforeDenial
  /** Says a line to the program at the other end of a connection, before it is refused. */
  readonly tell?: Tell
  readonly resolver?: Resolver
  readonly caps?: Partial<Caps>
  /** Proxies of the user's own environment that lead out. */
  readonly proxies?: Proxies | null
  readonly credentials?: readonly CredentialGrant[]
  /** Vouches in the sandbox for hosts whose TLS a credential lets us open. */
  readonly authority?: Authority | null
  /** Certificates, as PEM, that TLS we begin ourselves trusts beside the usual ones. */
  readonly authorities?: readonly string[]
}

export interface Broker extends AsyncDisposable {
  /** New connections at once; open ones that would no longer be let out are cut. */
  setPolicy(policy: EgressPolicy): void
  usage(): NetworkUse
  /** Takes the listening sockets of a relay that was started with an IPC channel. */
  adopt(relay: ChildProcess): void
  /** Resolves when what the sandbox said before it ended is on its way, or will not get any further. */
  drain(enough: AbortSignal): Promise<void>
  close(): Promise<void>
}

/** Connections the kernel holds for us while we are busy. */
const backlog = 4096
const plainPort = 80
const mostTurnedAway = 16
/** For a relay to do as it is told. */
const resetMs = 1000

const passedSchema = z.object({
  key: z.string(),
  opening: z
    .union([
      z.object({ kind: z.enum(['proxy', 'names']) }),
      z.object({ kind: z.literal('alias'), host: z.string(), port: z.number() }),
    ])
    .optional(),
  question: z.object({ message: z.string(), address: z.string(), port: z.number() }).optional(),
})

export async function startBroker(options: BrokerOptions): Promise<Broker> {
  const caps = { ...defaultCaps, ...options.caps }
  const resolver = options.resolver ?? memoisedResolver()
  const credentials = (options.credentials ?? []).map(parseCredential)
  const { authority = null, onDecision, beforeDenial } = options
  const opens = (target: Target) => authority !== null && opensTls(credentials, target)
  const remark = (target: Target) => (opens(target) ? '; its TLS is opened for a secret' : '')
  const trust = upstreamTrust(options.authorities ?? [])
  const proxies = options.proxies ?? null
  const gate = new Gate(options.policy, { caps, resolver, onDecision, beforeDenial, remark, proxies, trust })
  const tell = tellWith(options.tell)
  const http = createHttpSide(gate, {
    credentials,
    authority,
    trust,
    handshakeMs: caps.handshakeMs,
    answerMs: caps.idleMs,
    tell,
    named: (target) => lookups.named(target),
  })
  const clients = new Set<Socket>()
  let closed = false

  // Half-open and mute connections count too.
  const mostClients = caps.connections * 2
  const admit = (client: Socket, opening: Opening | null) => {
    clients.add(client)
    client.once('close', () => clients.delete(client))
    client.on('error', () => client.destroy())
    const serving =
      clients.size > mostClients
        ? turnAway(client, opening)
        : opening === null
          ? serveTunnel(client)
          : serve(client, opening)
    void serving.catch(() => client.destroy())
  }
  /** Whoever comes when all places are taken is on record, and told so as long as there are not too many of them, too. */
  async function turnAway(client: Socket, passed: Opening | null): Promise<void> {
    const isTold = clients.size <= mostClients + mostTurnedAway
    const opening = passed ?? (isTold ? await readUntil(client, readLine, caps.handshakeMs) : null)
    const why = `more than ${mostClients} connections at one time`
    const denied =
      opening?.kind === 'alias'
        ? gate.deny({ host: opening.host, port: opening.port }, 'alias', why)
        : gate.denyNonsense('connect', why)
    if (!isTold) return void client.destroy()
    await tell(client, denied)
    await refusePlain(client, denied)
  }
  const server = createServer({ allowHalfOpen: true }, (client) => admit(client, null))
  const listeners = new Map<string, Server | DatagramSocket>()
  const line = new RelayLine()
  /** Whether there is a relay that gives us its listeners. */
  let passesOn = false
  const lookups = new Lookups(options.policy, {
    gate,
    tell,
    listenAt: async (alias) => {
      if (openKeys(alias).every((key) => listeners.has(key))) return true
      // A relay that takes no orders has listened to what it was told at its start, and to nothing else.
      if (!line.isUp) return aliasesFor(gate.policy).some(({ host }) => host === alias.host)
      if (!(await line.listen(alias))) return false
      // Without room for them in our table the kernel drops the sockets that are passed to us.
      return !passesOn || openKeys(alias).some((key) => listeners.has(key))
    },
    mostAliases: aliasesWithin(await mostOpenFiles()),
    forget: (alias) => {
      for (const key of listenerKeys(alias)) drop(key)
      line.forget(alias)
    },
  })

  const drop = (key: string) => {
    listeners.get(key)?.close()
    listeners.delete(key)
  }
  /** The sockets outlive the relay: once they are passed it has done its work. */
  const adopt = (relay: ChildProcess) => {
    line.connect(relay)
    passesOn ||= relay.connected
    relay.on('message', (message, handle) => {
      const parsed = passedSchema.safeParse(message)
      if (!parsed.success || closed) return handle instanceof Socket ? void handle.destroy() : undefined
      const { key, opening, question } = parsed.data
      if (question !== undefined) {
        const socket = listeners.get(key)
        if (socket instanceof DatagramSocket)
          void answerDatagram(socket, lookups, Buffer.from(question.message, 'base64'), question)
        return
      }
      if (opening === undefined) return drop(key)
      if (handle instanceof Socket) {
        handle.allowHalfOpen = true
        handle.setNoDelay(true)
        return admit(handle, opening)
      }
      // A connection that was gone before it could be passed on.
      if (handle === undefined) return
      drop(key)
      if (handle instanceof DatagramSocket) {
        listeners.set(key, handle)
        return serveDatagrams(handle, lookups)
      }
      const listener = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
        admit(client, opening)
      })
      listener.on('error', () => drop(key))
      listener.listen(handle, backlog)
      listeners.set(key, listener)
    })
  }

  async function serveTunnel(client: Socket): Promise<void> {
    const opening = await readUntil(client, readLine, caps.handshakeMs)
    if (opening === null) return void client.destroy()
    const { id } = opening
    if (id !== undefined) resetBy(client, () => resetCarried(client, id))
    await serve(client, opening)
  }
  /** Only the relay can reset what it carries; then it hangs up on us. */
  function resetCarried(client: Socket, id: string): void {
    if (!line.reset(id)) return void client.destroy()
    const timer = setTimeout(() => client.destroy(), resetMs)
    client.once('close', () => clearTimeout(timer))
  }

  async function serve(client: Socket, opening: Opening): Promise<void> {
    if (opening.kind === 'alias') return serveAlias(client, opening.host, opening.port)
    if (opening.kind === 'names') return serveQuestions(client, lookups, caps.handshakeMs)
    if (opening.kind === 'orders') return line.connectSocket(client, aliasesFor(gate.policy))
    const first = await readUntil(client, firstByte, caps.handshakeMs)
    if (first === null) return void client.destroy()
    if (first === 5) return serveSocks(gate, client, caps.handshakeMs, http, lookups)
    if (first === 4) return refuseOldSocks(gate, client, caps.handshakeMs, tell)
    http.serveProxy(client)
  }

  async function serveAlias(client: Socket, host: string, port: number): Promise<void> {
    try {
      const target = { host: normaliseHost(host) ?? host, port }
      // The user's proxy may take plain requests and no tunnel to their port; and where they go on as TLS, the server
      // may have nobody there.
      if (port === plainPort && (gate.forwards(target) || http.moves(target)))
        return http.serveRequests(client, target, 'alias')
      const passage = await openPassage(gate, client, target, 'alias', tell)
      await carry(gate, client, passage, caps.handshakeMs, http)
    } catch (error) {
      await tell(client, error)
      await refusePlain(client, error)
    }
  }

  // At once, in a folder of ours: an agent's start waits for this.
  rmSync(options.socketPath, { force: true })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ path: options.socketPath, backlog }, resolve)
  }).catch((error: NodeJS.ErrnoException) => {
    throw new OrangeryError(
      'egress.no_socket',
      `egress broker: cannot listen on ${options.socketPath} (${error.code ?? 'failed'})`,
      { kind: 'cannot_create', cause: error },
    )
  })
  chmodSync(options.socketPath, 0o600)
  const watch = setInterval(() => gate.enforceCaps(), 500)
  watch.unref()

  const close = async () => {
    if (closed) return
    closed = true
    clearInterval(watch)
    for (const key of listeners.keys()) drop(key)
    gate.close()
    for (const client of clients) client.destroy()
    await new Promise<void>((resolve) => server.close(() => resolve()))
    await rm(options.socketPath, { force: true })
  }
  return {
    setPolicy: (policy) => {
      // First the names: who is cut off asks again at once.
      lookups.setPolicy(policy)
      const hosts = aliasesFor(policy)
      gate.setPolicy(policy)
      // Listeners go after the names in the sandbox's own list, when the relay says so: until then whoever comes to one is
      // told why. Where there is none nobody would say so.
      if (!line.isUp) {
        const wanted = new Set([...hosts, ...lookups.aliases].flatMap(listenerKeys))
        for (const key of listeners.keys()) if (!isLasting(key) && !wanted.has(key)) drop(key)
      }
      line.setHosts(hosts)
    },
    usage: () => gate.usage(),
    adopt,
    drain: async (enough) => {
      // Nothing leads out, and nobody has come to be told so.
      if (listeners.size === 0 && clients.size === 0) return
      await lastWords(() => ({ clients, upstreams: gate.upstreams, opening: gate.opening }), enough)
      if (!enough.aborted) await partInOrder(gate.upstreams)
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

const firstByte = (bytes: Buffer) => ({ value: bytes[0] ?? 0, used: 0 })

async function serveSocks(
  gate: Gate,
  client: Socket,
  handshakeMs: number,
  readers: Readers,
  lookups: Lookups,
): Promise<void> {
  const open = await readUntil(client, parseGreeting, handshakeMs)
  if (open !== true) {
    gate.denyNonsense('socks')
    return hangUp(client, Buffer.from([5, 0xff]))
  }
  client.write(Buffer.from([5, 0]))
  const asked = await readUntil(client, parseRequest, handshakeMs)
  if (asked === null) return void client.destroy()
  if (asked.kind === 'bad') {
    gate.denyNonsense('socks')
    return hangUp(client, encodeReply(asked.reply))
  }
  try {
    const passage = await openPassage(gate, client, lookups.named(asked.target), 'socks', readers.tell)
    client.write(encodeReply(socksReply.ok))
    await carry(gate, client, passage, handshakeMs, readers)
  } catch (error) {
    await readers.tell(client, error)
    hangUp(client, encodeReply(replyOf(error)))
  }
}

/** SOCKS4 cannot say why, and often resolves by itself: who speaks it is refused, and the host is on record. */
async function refuseOldSocks(gate: Gate, client: Socket, handshakeMs: number, tell: TellWhy): Promise<void> {
  const target = await readUntil(client, parseOldRequest, handshakeMs)
  if (target === null) gate.denyNonsense('socks')
  else await tell(client, gate.deny(target, 'socks', 'SOCKS4 is not spoken here: use SOCKS5 or HTTP'))
  hangUp(client, oldRefusal)
}

function replyOf(error: unknown): number {
  if (!(error instanceof Unreachable)) return socksReply.refused
  return error.code === 'ECONNREFUSED' ? socksReply.connectionRefused : socksReply.unreachable
}
