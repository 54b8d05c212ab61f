import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { isIP, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as tlsConnect, TLSSocket, type SecureContext } from 'node:tls'
import type { Authority } from '../tls/authority.ts'
import { credentialsFor, opensTls, type Credential } from '../rules/credentials.ts'
import {
  headText,
  isForNext,
  isPlainCoding,
  passedOn,
  passRefusal,
  passResponse,
  readHead,
  readingMethods,
  sendRequest,
  unreadable,
  type Head,
} from './exchange.ts'
import { Denied, Unreachable } from '../dial/failures.ts'
import type { Cut, Gate, Passage, Via } from '../gate.ts'
import { parseAuthority, showTarget, type Target } from '../rules/names.ts'
import {
  forProxy,
  nameHost,
  placeOfProxyRequest,
  placeOfUnreadable,
  whyUnreadable,
  wholeUrl,
  wrongHost,
  type ParseError,
} from './requests.ts'
import { hangUp, isBreakingOff, resetWith } from '../dial/endings.ts'
import type { TellWhy } from '../telling.ts'
import type { Carrying } from '../dial/upstream.ts'
import { createTurns } from './turns.ts'
import { carry, cutWith, httpAnswer, join, openPassage, statusOf } from '../dial/tunnel.ts'

type Plan = { target: Target; via: Via; path: string; headers: string[]; tls: boolean }
type Way = Pick<Passage, 'upstream' | 'forwarder' | 'next'>

/** What is fixed about a connection that did not come as a proxy request: where it leads. */
type Fixed = {
  readonly target: Target
  readonly via: Via
  ready: Passage | null
  /** The program spoke TLS, which we opened: to the server we speak it too. */
  readonly opened: boolean
}

export type HttpSide = {
  /** Serves a client that speaks HTTP to the proxy port. */
  serveProxy(client: Socket): void
  /** Serves a client that speaks plain HTTP in a tunnel to one host. */
  serveTunnel(client: Socket, passage: Passage): void
  /** The same, where no connection to the host stands yet. */
  serveRequests(client: Socket, target: Target, via: Via): void
  /** Whether plain requests to a host go on as TLS, to another port. */
  moves(target: Target): boolean
  /** Whether the TLS of a connection is to be opened: a secret belongs into it, and the user allowed it. */
  opens(target: Target): boolean
  /** Answers a client's TLS in the place of the host, and serves what it says inside. */
  serveOpened(client: Socket, passage: Passage): void
  readonly tell: TellWhy
}

export type HttpOptions = {
  readonly credentials: readonly Credential[]
  /** Vouches for hosts whose TLS is opened; without it none is. */
  readonly authority: Authority | null
  /** Whom we trust where we begin TLS ourselves. */
  readonly trust: () => SecureContext
  readonly handshakeMs: number
  /** Until a server's answer begins. */
  readonly answerMs: number
  readonly tell: TellWhy
  /** The host behind an address that only the sandbox knows it by. */
  readonly named: (target: Target) => Target
}

/**
 * HTTP is read and written anew by Node's own parser, request by request, so that what we decided on is what
 * the server gets: no smuggled second request, no other Host. (escape: egress-host-header, request-smuggling)
 */
export function createHttpSide(gate: Gate, options: HttpOptions): HttpSide {
  const { credentials, authority, handshakeMs, answerMs, tell } = options
  const fixed = new WeakMap<Duplex, Fixed>()
  const greeting = new WeakMap<Duplex, NodeJS.Timeout>()
  const server = createServer({
    // Other upgrades (h2c) would turn into a protocol whose host names we cannot see.
    shouldUpgradeCallback: (request) => request.headers.upgrade?.toLowerCase() === 'websocket',
    keepAliveTimeout: 65_000,
    // We look for it ourselves, so that a request without one is on record.
    requireHostHeader: false,
  })

  // A program may end its side with its request and still wait for the answer.
  Object.assign(server, { httpAllowHalfOpen: true })

  const greeted = (socket: Duplex) => clearTimeout(greeting.get(socket))
  const heard = new WeakSet<Duplex>()
  const hear = (socket: Duplex) => {
    heard.add(socket)
    greeted(socket)
  }
  const serve = (client: Socket) => {
    greeting.set(
      client,
      setTimeout(() => client.destroy(), handshakeMs),
    )
    client.once('close', () => greeted(client))
    server.emit('connection', client)
    client.resume()
  }

  server.on('clientError', (failure: ParseError, socket) => {
    // A socket of ours, emitted into the server above.
    void onUnreadable(failure, socket as Socket).catch(() => socket.destroy())
  })
  async function onUnreadable(failure: ParseError, client: Socket): Promise<void> {
    // Who hangs up has asked for nothing.
    if (failure.code?.startsWith('HPE_') !== true || failure.code === 'HPE_INVALID_EOF_STATE')
      return hangUp(client, httpAnswer(400, 'Orangery could not read this request'))
    const why = whyUnreadable(failure)
    const inside = fixed.get(client)
    const said = inside === undefined ? placeOfUnreadable(failure) : null
    const target = said === null ? inside?.target : options.named(said)
    const denied =
      target === undefined
        ? gate.denyNonsense('http', why)
        : await gate.denyUse(target, inside?.via ?? 'http', why).catch((refused: unknown) => refused)
    await tell(client, denied)
    const isNamed = target !== undefined && denied instanceof Denied
    hangUp(client, httpAnswer(400, isNamed ? denied.message : `Orangery: ${why}`))
  }

  const turns = createTurns((socket, why) => {
    const inside = fixed.get(socket)
    if (inside === undefined) gate.denyNonsense('http', why)
    else gate.deny(inside.target, inside.via, why)
  })

  server.on('connect', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    hear(socket)
    // A socket of ours, emitted into the server above.
    void onConnect(request, socket as Socket, head).catch(() => socket.destroy())
  })
  async function onConnect(request: IncomingMessage, client: Socket, head: Buffer): Promise<void> {
    client.on('error', () => client.destroy())
    const inside = fixed.get(client)
    const target = parseAuthority(request.url ?? '', null)
    if (target === null || inside !== undefined) {
      gate.denyNonsense('connect')
      hangUp(client, httpAnswer(400, `Orangery cannot connect to "${(request.url ?? '').slice(0, 300)}"`))
      return
    }
    try {
      if (!(await turns.last(client))) return
      const passage = await openPassage(gate, client, options.named(target), 'connect', tell)
      client.write('HTTP/1.1 200 Connection established\r\n\r\n')
      if (head.length > 0) client.unshift(head)
      await carry(gate, client, passage, handshakeMs, side)
    } catch (error) {
      await refuse(client, error)
    }
  }
  async function refuse(client: Socket, error: unknown): Promise<void> {
    await tell(client, error)
    const { status, text } = statusOf(error)
    hangUp(client, httpAnswer(status, text))
  }

  server.on('request', (request, response) => {
    hear(request.socket)
    const answered = turns
      .next(request.socket, response)
      .then((isOurs) => (isOurs ? onRequest(request, response) : undefined))
    void answered
      .catch(async (error: unknown) => {
        await tell(request.socket, error)
        const { status, text } = statusOf(error)
        answer(request, response, status, text)
      })
      .catch(() => request.socket.destroy())
  })
  /** It says that it is the last answer, and so it is. */
  function answer(request: IncomingMessage, response: ServerResponse, status: number, text: string): void {
    turns.end(request.socket)
    answerLast(request, response, status, text)
  }
  async function onRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const client = request.socket
    const plan = planRequest(request)
    if (typeof plan === 'string') return answer(request, response, 400, plan)
    if (gate.policy.readOnly && !readingMethods.has(request.method ?? ''))
      throw await denyUse(plan, `read-only outputs do not let ${request.method ?? 'this'} through`)
    let way = await open(plan, request, cutWith(tell, client), 'request')
    let head = await exchange(plan, request, way)
    while (way.next !== null && !client.destroyed && isForNext(request, plan.headers, head)) {
      way.upstream.destroy()
      way = await way.next()
      head = await exchange(plan, request, way)
    }
    const { upstream } = way
    if (head !== null && head !== unreadable && head.status !== 101)
      return passResponse(head, client, response, upstream)
    upstream.destroy()
    if (!isBreakingOff(client)) answer(request, response, 502, noAnswer(plan.target, head))
  }

  const denyUse = (plan: Plan, why: string) => gate.denyUse(reached(plan), plan.via, why)

  async function exchange(plan: Plan, request: IncomingMessage, way: Way): Promise<Head | null> {
    const client = request.socket
    const { upstream, forwarder } = way
    const drop = () => upstream.destroy()
    if (client.destroyed) drop()
    client.once('close', drop)
    upstream.once('close', () => client.off('close', drop))
    const headers = [...plan.headers, 'Connection', 'close']
    if (forwarder === null) sendRequest(request, plan.path, headers, upstream)
    else {
      const asked = forProxy(plan.target, headers, forwarder)
      sendRequest(request, wholeUrl(forwarder.asked, plan.path), asked, upstream)
    }
    return readHead(upstream, request.method ?? 'GET', answerMs)
  }

  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    hear(socket)
    const client = socket as Socket
    client.on('error', () => client.destroy())
    void onUpgrade(request, client, head)
      .catch((error: unknown) => refuse(client, error))
      .catch(() => client.destroy())
  })
  async function onUpgrade(request: IncomingMessage, client: Socket, first: Buffer): Promise<void> {
    if (!(await turns.last(client))) return
    const plan = planRequest(request)
    if (typeof plan === 'string') return void hangUp(client, httpAnswer(400, plan))
    if (gate.policy.readOnly) throw await denyUse(plan, 'read-only outputs take no web sockets')
    const { upstream } = await open(plan, request, cutWith(tell, client), 'tunnel')
    client.once('close', () => upstream.destroy())
    const upgrade = ['Connection', 'Upgrade', 'Upgrade', 'websocket']
    sendRequest(request, plan.path, [...plan.headers, ...upgrade], upstream)
    const head = await readHead(upstream, request.method ?? 'GET', answerMs)
    if (head === null || head === unreadable) {
      upstream.destroy()
      if (isBreakingOff(client)) return
      return void hangUp(client, httpAnswer(502, noAnswer(plan.target, head)))
    }
    // Before the server agreed, what follows is still HTTP, and could be another request.
    if (head.status !== 101) return passRefusal(head, client, upstream)
    client.write(headText(`HTTP/1.1 101 ${head.message}`, [...passedOn(head.headers), ...upgrade]), 'latin1')
    if (first.length > 0) upstream.write(first)
    join(client, upstream, gate)
  }

  /** Where a request leads and what is passed on, or the sentence that says what is wrong with it. */
  function planRequest(request: IncomingMessage): Plan | string {
    const inside = fixed.get(request.socket)
    const place = inside === undefined ? placeOfProxyRequest(request.url ?? '') : inside
    if (place === null) {
      gate.denyNonsense('http')
      return 'This is the proxy of an Orangery sandbox: it takes CONNECT and requests for http:// addresses'
    }
    const path = 'path' in place ? place.path : (request.url ?? '/')
    if (inside !== undefined && !/^[/*]/.test(path)) {
      gate.denyNonsense(inside.via)
      return 'Orangery takes no proxy request inside a tunnel'
    }
    const target = inside === undefined ? options.named(place.target) : place.target
    const via = inside?.via ?? 'http'
    const wrong = wrongHost(request, target)
    if (wrong !== null && wrongHost(request, place.target) !== null) throw gate.deny(target, via, wrong)
    // A server that does not know it takes the body for the next request. (escape: request-smuggling)
    if (request.httpVersion === '1.0' && request.headers['transfer-encoding'] !== undefined)
      throw gate.deny(target, via, 'HTTP/1.0 has no Transfer-Encoding')
    if (!isPlainCoding(request.headers['transfer-encoding']))
      throw gate.deny(target, via, 'of Transfer-Encoding only chunked is passed on')
    const opened = inside?.opened === true
    const secrets = credentialsFor(credentials, target).filter(({ intercept }) => !opened || intercept)
    // Its answer is the request itself, with the secret in it. (escape: secret-echo)
    if (secrets.length > 0 && request.method === 'TRACE')
      throw gate.deny(target, via, 'TRACE would show the secret of this host')
    const headers = passedOn(request.rawHeaders, ['expect', ...secrets.map(({ header }) => header)])
    // The server knows nothing of the address that only the sandbox knows it by.
    if (wrong !== null) nameHost(headers, target)
    for (const { header, value } of secrets) {
      // Without it a request that is to be TLS would go out plain.
      if (value === null) throw gate.deny(target, via, 'its secret could not be read when the agent started')
      headers.push(header, value)
    }
    return { target, via, path, headers, tls: opened || secrets.some(({ tls }) => tls) }
  }

  async function open(plan: Plan, request: IncomingMessage, cut: Cut, carrying: Carrying): Promise<Way> {
    const inside = fixed.get(request.socket)
    const target = reached(plan)
    const moves = target !== plan.target
    const ready = inside?.ready ?? null
    if (inside !== undefined) inside.ready = null
    const isUsable = ready !== null && !moves && !ready.upstream.destroyed
    if (!isUsable) ready?.upstream.destroy()
    const passage = isUsable ? ready : await gate.pass(target, plan.via, cut, plan.tls ? 'tunnel' : carrying)
    if (!plan.tls) return passage
    return {
      upstream: await beginTls(passage.upstream, target, options.trust()),
      forwarder: null,
      next: null,
    }
  }

  function serveTunnel(client: Socket, passage: Passage): void {
    fixed.set(client, { target: passage.target, via: passage.via, ready: passage, opened: false })
    serve(client)
  }

  function serveRequests(client: Socket, target: Target, via: Via): void {
    fixed.set(client, { target, via, ready: null, opened: false })
    serve(client)
  }

  const moves = (target: Target) =>
    target.port === 80 && credentialsFor(credentials, target).some(({ tls }) => tls)
  const opens = (target: Target) => authority !== null && opensTls(credentials, target)

  function serveOpened(client: Socket, passage: Passage): void {
    if (authority === null) return void client.destroy()
    const { target, via } = passage
    const secureContext = authority.contextFor(target.host)
    const inside = new TLSSocket(client, { isServer: true, secureContext, ALPNProtocols: ['http/1.1'] })
    resetWith(inside, client)
    let isSettled = false
    // Java and whoever pins certificates do not trust us: nobody was reached, and that has to be on record. Some
    // look at the certificate only when the handshake is over, so that only a request tells of trust.
    const fail = (why: string) => {
      if (!isSettled && !heard.has(inside))
        gate.deny(target, via, `the program refused our TLS, opened for a secret (${why})`)
      isSettled = true
      client.destroy()
    }
    const timer = setTimeout(() => fail('it took too long'), handshakeMs)
    client.once('close', () => {
      clearTimeout(timer)
      fail('it hung up before it asked for anything')
    })
    inside.on('error', (error: NodeJS.ErrnoException) => fail(error.code ?? 'failed'))
    // Ended with nothing asked: there is no answer to wait for, though a half of it is still open.
    inside.once('end', () => heard.has(inside) || fail('it ended before it asked for anything'))
    inside.once('secure', () => {
      clearTimeout(timer)
      fixed.set(inside, { target, via, ready: passage, opened: true })
      serve(inside)
    })
  }

  const side: HttpSide = { serveProxy: serve, serveTunnel, serveRequests, moves, opens, serveOpened, tell }
  return side
}

const noAnswer = (target: Target, head: Head | null): string =>
  head === unreadable
    ? `Orangery cannot read what ${showTarget(target)} answered: it is no proper HTTP`
    : `Orangery got no answer from ${showTarget(target)}`

/** Where a request goes in the end: as TLS to another port. */
const reached = ({ target, tls }: Plan): Target =>
  tls && target.port === 80 ? { host: target.host, port: 443 } : target

/** TLS that we begin, checked as the user's own programs would. */
function beginTls(socket: Socket, target: Target, secureContext: SecureContext): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const servername = isIP(target.host) === 0 ? { servername: target.host } : {}
    const secure = tlsConnect({
      socket,
      host: target.host,
      ...servername,
      ALPNProtocols: ['http/1.1'],
      secureContext,
    })
    secure.once('secureConnect', () => resolve(secure))
    secure.on('error', (error: NodeJS.ErrnoException) => {
      socket.destroy()
      reject(new Unreachable(target, `TLS failed (${error.code ?? error.message})`))
    })
    secure.once('close', () => reject(new Unreachable(target, 'TLS failed')))
  })
}

function answerLast(request: IncomingMessage, response: ServerResponse, status: number, text: string): void {
  if (response.headersSent) return void response.destroy()
  response.writeHead(status, text.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 500), {
    'Content-Type': 'text/plain; charset=utf-8',
    'X-Orangery': status === 403 ? 'denied' : 'failed',
    Connection: 'close',
  })
  response.end(`${text}\n`)
  request.resume()
}
