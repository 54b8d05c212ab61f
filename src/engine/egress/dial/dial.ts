import { connect, type Socket } from 'node:net'
import type { Writable } from 'node:stream'
import { Unreachable } from './failures.ts'
import type { Target } from '../rules/names.ts'

/** Takes bytes as they arrive, in a buffer that is used again; false: read no more until `resume`. */
export type Sink = (bytes: Buffer) => boolean

const firstReadSize = 16 * 1024
const readSize = 256 * 1024
const sinks = new WeakMap<Socket, Sink>()
const dialled = new WeakSet<Socket>()

/**
 * Connects to an address that was checked. The socket reads into one large buffer of its own: as a stream it
 * copies out of it, and a tunnel diverts it and spares the copy, which is worth half the throughput.
 */
export function dial(host: string, port: number, timeoutMs: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    let buffer = Buffer.allocUnsafeSlow(firstReadSize)
    // Most connections say little: only one that fills the small buffer gets the large one.
    const nextBuffer = (): Buffer => {
      if (filled && buffer.length < readSize) buffer = Buffer.allocUnsafeSlow(readSize)
      return buffer
    }
    let filled = false
    const onRead = (length: number): boolean => {
      filled = length === buffer.length
      const bytes = buffer.subarray(0, length)
      const sink = sinks.get(socket)
      return sink === undefined ? socket.push(Buffer.from(bytes)) : sink(bytes)
    }
    const socket = connect({
      host,
      port,
      allowHalfOpen: true,
      noDelay: true,
      onread: { buffer: nextBuffer, callback: onRead },
    })
    dialled.add(socket)
    const timer = setTimeout(() => socket.destroy(codedError('ETIMEDOUT')), timeoutMs)
    socket.once('error', reject)
    socket.once('close', () => clearTimeout(timer))
    socket.once('connect', () => {
      clearTimeout(timer)
      socket.off('error', reject)
      socket.on('error', () => {})
      resolve(socket)
    })
  })
}

/**
 * From now on, and with what is already read, everything of the source goes to the sink. Its end is still told
 * by the event `end`.
 */
export function pour(source: Socket, sink: Sink): void {
  const waiting: Buffer | null = source.read()
  const ready = waiting === null || sink(waiting)
  if (dialled.has(source)) sinks.set(source, sink)
  else {
    source.on('data', (bytes: Buffer) => {
      if (!sink(bytes)) source.pause()
    })
  }
  if (ready) source.resume()
}

/** Calls back when the source has said its last, also where that was before anyone listened. */
export function whenEnded(source: Socket, then: () => void): void {
  if (source.readableEnded) then()
  else source.once('end', then)
}

/** A sink that writes to a socket and takes more only when the kernel has taken what it was given. */
export function sinkInto(destination: Writable, source: Socket): Sink {
  return (bytes) => {
    destination.write(bytes)
    if (destination.writableLength === 0) return true
    destination.write('', () => source.resume())
    return false
  }
}

/** What may wait for the kernel on its way out, of all tunnels together, before their sources are told to wait too. */
const mostWaiting = 64 * 1024 * 1024
const mostOfOne = 1024 * 1024

/**
 * Passes everything of a program on, in larger pieces than a pipe, which stops at every single one. The more tunnels there
 * are, the less each may hold: a server that takes nothing must not fill our memory by way of a thousand of them.
 */
export function passOn(
  source: Socket,
  destination: Writable,
  tunnels: { readonly open: number },
  mayPass: (bytes: Buffer) => Buffer | null = (bytes) => bytes,
): void {
  source.on('data', (said: Buffer) => {
    const bytes = mayPass(said)
    if (bytes === null || bytes.length === 0) return
    destination.write(bytes)
    const most = Math.max(Math.min(mostOfOne, mostWaiting / tunnels.open), destination.writableHighWaterMark)
    if (destination.writableLength < most) return
    source.pause()
    destination.once('drain', () => source.resume())
  })
  whenEnded(source, () => destination.end())
  source.resume()
}

export const codedError = (code: string): NodeJS.ErrnoException => Object.assign(new Error(code), { code })

const addressPatienceMs = 3000

/** A dead address (IPv6 without a route, mostly) must not eat the time of those after it. */
export const deadlineOf = (deadline: number, isLast: boolean): number =>
  isLast ? deadline : Math.min(deadline, Date.now() + addressPatienceMs)

/** The first of the addresses that answers. */
export async function dialFirst(
  target: Target,
  addresses: readonly string[],
  port: number,
  deadline: number,
): Promise<{ readonly upstream: Socket; readonly place: Target }> {
  let failure = 'no address'
  for (const [index, address] of addresses.entries()) {
    if (deadline <= Date.now()) break
    try {
      const patience = deadlineOf(deadline, index === addresses.length - 1) - Date.now()
      return { upstream: await dial(address, port, patience), place: { host: address, port } }
    } catch (error) {
      failure = (error as NodeJS.ErrnoException).code ?? 'failed'
    }
  }
  throw new Unreachable(target, failure)
}

export function withDeadline<T>(work: Promise<T>, deadline: number): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(codedError('ETIMEDOUT')), deadline - Date.now())
  return Promise.race([work, promise]).finally(() => clearTimeout(timer))
}
