import type { Socket } from 'node:net'
import { passOn, pour, sinkInto, whenEnded } from './dial.ts'
import { Denied, Unreachable } from './failures.ts'
import type { Cut, Gate, Passage, Via } from '../gate.ts'
import { isLikeTls, peek, unfinished, type Peeked } from '../tls/hello.ts'
import { LineWatch } from '../line/lineWatch.ts'
import { HelloWatch } from '../line/retry.ts'
import { readUntil } from '../line/reading.ts'
import { breakOff, hangUp, reset } from './endings.ts'
import { normaliseSent, showTarget, type Target } from '../rules/names.ts'
import type { TellWhy } from '../telling.ts'

/** TLS alerts, fatal: "access denied", and "internal error" where nobody denied anything. */
const tlsDenied = Buffer.from([0x15, 3, 3, 0, 2, 2, 49])
const tlsFailed = Buffer.from([0x15, 3, 3, 0, 2, 2, 80])

/** Who takes over a tunnel whose requests we read. */
export type Readers = {
  serveTunnel(client: Socket, passage: Passage): void
  serveRequests(client: Socket, target: Target, via: Via): void
  opens(target: Target): boolean
  serveOpened(client: Socket, passage: Passage): void
  readonly tell: TellWhy
}

/** A request that is written by a program has its first line by then. */
const begunMs = 300

/** Looks at what passes between the two; null: it may not. */
type Watch = {
  fromClient(this: void, bytes: Buffer): Buffer | null
  fromServer(this: void, bytes: Buffer): boolean
}

/** Joins two sockets until both directions have ended; an error on one side ends the other at once. Gives what parts them. */
export function join(
  client: Socket,
  upstream: Socket,
  gate: Pick<Gate, 'halfClosedMs' | 'open'>,
  watch?: Watch,
): () => void {
  if (upstream.destroyed) {
    if (upstream.readableEnded) hangUp(client)
    else reset(client)
    return () => {}
  }
  const drop = () => {
    reset(client)
    reset(upstream)
  }
  client.once('error', drop).once('close', drop)
  upstream.once('error', drop).once('close', drop)
  // The gate cuts what is idle; from here on that is sooner.
  const hurry = () => upstream.setTimeout(gate.halfClosedMs)
  whenEnded(client, hurry)
  whenEnded(upstream, () => {
    client.end()
    hurry()
  })
  const sink = sinkInto(client, upstream)
  pour(upstream, (bytes) => {
    return watch?.fromServer(bytes) === false ? false : sink(bytes)
  })
  passOn(client, upstream, gate, watch?.fromClient)
  return () => {
    client.removeAllListeners('data').off('error', drop).off('close', drop)
    reset(upstream.off('error', drop).off('close', drop))
  }
}

/** Whoever was cut off in the middle is told why, as one that was not let out at all. */
export const cutWith =
  (tell: TellWhy, client: Socket): Cut =>
  (denied) => {
    if (denied === null) reset(client)
    else void breakOff(client, tell(client, denied))
  }

/** Opens a way for a client that now speaks its own protocol, and says why where there is none. */
export async function openPassage(
  gate: Gate,
  client: Socket,
  target: Target,
  via: Via,
  tell: TellWhy,
): Promise<Passage> {
  const passage = await gate.pass(target, via, cutWith(tell, client))
  if (client.destroyed) {
    passage.upstream.destroy()
    throw new Unreachable(target, 'the program went away')
  }
  // An end would make a whole upload of what is half of one.
  client.once('close', () => reset(passage.upstream))
  return passage
}

/**
 * Carries a tunnel. The client's first bytes are held until they show no other name than the one that was
 * allowed: shared front ends route by SNI and Host, not by address. (escape: domain-fronting)
 */
export async function carry(
  gate: Gate,
  client: Socket,
  passage: Passage,
  handshakeMs: number,
  readers: Readers,
): Promise<void> {
  const { target, via, upstream } = passage
  // Where the server speaks first (ssh, smtp), the client waits for it.
  let heard = 0
  const onHeard = (bytes: Buffer) => (heard += bytes.length)
  upstream.on('data', onHeard).pipe(client)
  // Not where only reading is let through: what is begun could go on as anything.
  const isPatient = !passage.pinned || gate.policy.readOnly
  const { peeked, left } = await readFirst(client, handshakeMs, upstream, isPatient)
  upstream.off('data', onHeard).unpipe(client)
  const refuse = async (why: string) => {
    const denied = gate.deny(target, via, why)
    const { message } = denied
    upstream.destroy()
    await readers.tell(client, denied)
    const isTls = peeked.kind === 'tls' || (peeked.kind === 'broken' && peeked.like === 'TLS')
    const isHttp = peeked.kind === 'broken' && heard === 0
    hangUp(client, isTls ? tlsDenied : isHttp ? httpAnswer(403, message) : '')
  }
  if (peeked.kind === 'broken') {
    const what = peeked.like === 'TLS' ? 'ClientHello' : 'request'
    return refuse(`what looks like ${peeked.like} is not a proper ${what}`)
  }
  if (peeked.kind === 'tls' && peeked.serverName !== null) {
    const name = normaliseSent(peeked.serverName)
    if (name !== target.host) {
      return refuse(`TLS asks for ${name ?? 'a bad name'} in a connection to ${showTarget(target)}`)
    }
  }
  if (peeked.kind === 'h2c' && !passage.pinned) return refuse('HTTP/2 without TLS hides the host it is for')
  if (peeked.kind === 'tls' && readers.opens(target)) return readers.serveOpened(client, passage)
  if (peeked.kind === 'http' && heard === 0) return readers.serveTunnel(client, passage)
  // A server more lenient than our parser could still take it for a request with another method.
  if (gate.policy.readOnly && peeked.kind !== 'tls' && peeked.kind !== 'more') {
    return refuse('read-only outputs let only TLS and HTTP/1.1 through')
  }
  if (left.length > 0) upstream.write(left)
  if (peeked.kind !== 'tls' && peeked.kind !== 'begun') return void join(client, upstream, gate)
  const cut = (why: string) => {
    if (upstream.destroyed) return
    client.removeAllListeners('data')
    const telling = readers.tell(client, gate.deny(target, via, why))
    void breakOff(client, telling, peeked.kind === 'tls' ? tlsDenied : undefined)
    reset(upstream)
  }
  if (peeked.kind === 'begun') {
    const line = new LineWatch()
    const fromClient = (bytes: Buffer) => {
      if (line.mayPass(bytes)) return bytes
      const { request } = line
      if (request === null || upstream.destroyed || upstream.bytesRead > 0) {
        cut('what began as another protocol goes on as a request')
        return null
      }
      // A slow one after all. The server has its beginning, and gets the whole of it on a connection of its own, once it was read.
      part()
      client.pause()
      client.unshift(request)
      readers.serveRequests(client, target, via)
      return null
    }
    const part = join(client, upstream, gate, { fromServer: () => true, fromClient })
    return
  }
  const hellos = new HelloWatch(gate.policy.readOnly)
  join(client, upstream, gate, {
    fromServer: (bytes) => {
      const isTls = hellos.fromServer(bytes)
      if (!isTls) cut('the server does not answer in TLS what began as TLS')
      return isTls
    },
    fromClient: (bytes) => {
      const passed = hellos.fromClient(bytes)
      if (passed === null) cut('TLS goes on as something else than it began')
      return passed
    },
  })
}

/**
 * Looks at the client's first bytes and puts them back; only where the client has ended they are left over.
 * `more`: it ended without a word, or was still silent when the server went away. `isPatient`: it is waited for until a line
 * is whole, or too late; else `begun` is soon enough.
 */
function readFirst(
  client: Socket,
  timeoutMs: number,
  upstream: Socket,
  isPatient: boolean,
): Promise<{ peeked: Peeked; left: Buffer }> {
  return new Promise((resolve) => {
    let bytes: Buffer = Buffer.alloc(0)
    // Only begun and unfinished first words are hurried: a silent client may be waiting for the server.
    let timer: NodeJS.Timeout | undefined
    let soon: NodeJS.Timeout | undefined
    const finish = (peeked: Peeked, left: Buffer) => {
      clearTimeout(timer)
      clearTimeout(soon)
      client.off('data', onData).off('end', onEnd).off('close', onEnd)
      upstream.off('close', onEnd)
      client.pause()
      resolve({ peeked, left })
    }
    const onEnd = () => {
      if (bytes.length === 0) return finish({ kind: 'more' }, bytes)
      // After its end a client cannot go on to make a request of what it began.
      finish(isLikeTls(bytes) ? unfinished(bytes) : { kind: 'other' }, bytes)
    }
    const onTimeout = () => finish(unfinished(bytes), bytes)
    const onSoon = () => {
      if (isLikeTls(bytes)) return
      finish({ kind: 'begun' }, Buffer.alloc(0))
      client.unshift(bytes)
    }
    const onData = (chunk: Buffer) => {
      timer ??= setTimeout(onTimeout, timeoutMs)
      if (!isPatient) soon ??= setTimeout(onSoon, begunMs)
      bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk])
      const peeked = peek(bytes, !isPatient)
      if (peeked.kind === 'more') return
      finish(peeked, Buffer.alloc(0))
      client.unshift(bytes)
    }
    client.on('data', onData).on('end', onEnd).on('close', onEnd)
    upstream.on('close', onEnd)
    if (client.readableEnded || client.destroyed) onEnd()
    else client.resume()
  })
}

/** Tells a program on a plain connection what went wrong, in the protocol it speaks, if it shows one. */
export async function refusePlain(client: Socket, error: unknown, waitMs = 1000): Promise<void> {
  const bytes = await readUntil(client, (value) => ({ value, used: value.length }), waitMs)
  if (bytes === null) return reset(client)
  const peeked = peek(bytes)
  const { status, text } = statusOf(error)
  if (isLikeTls(bytes)) hangUp(client, error instanceof Denied ? tlsDenied : tlsFailed)
  else if (peeked.kind === 'http') hangUp(client, httpAnswer(status, text))
  else reset(client)
}

/** The reason phrase carries the text too: pip, Go and Java show it, and not the body. */
export function httpAnswer(status: number, text: string): string {
  const phrase = text.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 500)
  const body = `${text}\n`
  return [
    `HTTP/1.1 ${status} ${phrase}`,
    'Content-Type: text/plain; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Orangery: ${status === 403 ? 'denied' : 'failed'}`,
    'Connection: close',
    '',
    body,
  ].join('\r\n')
}

export function statusOf(error: unknown): { status: number; text: string } {
  if (error instanceof Denied) return { status: 403, text: error.message }
  if (error instanceof Unreachable)
    return { status: error.code === 'ETIMEDOUT' ? 504 : 502, text: error.message }
  return { status: 500, text: 'Orangery could not carry this connection' }
}
