import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

const ways = new WeakMap<Socket, () => void>()
const outers = new WeakMap<Socket, Socket>()

/** How a program's connection is reset where the socket we hold is not the program's own. */
export function resetBy(client: Socket, way: () => void): void {
  ways.set(client, way)
}

/** The same of TLS that we opened in a program's connection. */
export function resetWith(inside: Socket, client: Socket): void {
  outers.set(inside, client)
}

/**
 * Breaks a connection off. Closing it would read as the end of what was sent, and half a file would count as a
 * whole one.
 */
export function reset(client: Socket): void {
  if (!isBreakingOff(client)) breakNow(client)
}

const breaking = new WeakSet<Socket>()
/** Whether a connection is about to be broken off, once its program was told why. */
export const isBreakingOff = (client: Socket): boolean => breaking.has(outers.get(client) ?? client)

/**
 * Breaks a program's connection off once it was told why: by its connection it is found, so that this has to last until then.
 * `word`: what its protocol has for the case.
 */
export async function breakOff(client: Socket, telling: Promise<void>, word?: Buffer): Promise<void> {
  if (isBreakingOff(client)) return
  breaking.add(outers.get(client) ?? client)
  await telling.catch(() => {})
  if (word === undefined) breakNow(client)
  else hangUp(client, word)
}

function breakNow(client: Socket): void {
  // Of one that we have ended it is too late to take that back.
  if (client.destroyed || client.writableEnded) return void client.destroy()
  const way = ways.get(client)
  if (way !== undefined) return way()
  const outer = outers.get(client)
  if (outer !== undefined) return breakNow(outer)
  // Sockets with a path know no reset, nor does TLS.
  if (client.remotePort === undefined || client instanceof TLSSocket) client.destroy()
  else client.resetAndDestroy()
}

const torn = new WeakSet<Socket>()
/** Whether the other side broke off while we were writing: then the end of what it said is no proper one either. */
export const isTorn = (socket: Socket): boolean => torn.has(socket)

/**
 * A server that answers before it has read everything, and closes, resets us behind its answer. The write that fails by it
 * would make Node throw the answer away unread: it is kept back, and the reading side finds out that it is over.
 */
export function outliveWrites(socket: Socket, then: () => void): void {
  const write = socket._write.bind(socket)
  const writeAll = socket._writev?.bind(socket)
  const guard = (done: (error?: Error | null) => void) => (error?: Error | null) => {
    if (error === undefined || error === null) return done()
    torn.add(socket)
    then()
  }
  socket._write = (chunk, encoding, done) => write(chunk, encoding, guard(done))
  if (writeAll !== undefined) socket._writev = (chunks, done) => writeAll(chunks, guard(done))
}

/** Calls back when a connection is over that was never ended: reset, or taken away by us. */
export function whenBroken(source: Socket, then: () => void): () => void {
  const onClose = () => {
    if (!source.readableEnded || isTorn(source)) then()
  }
  if (source.closed) onClose()
  else source.once('close', onClose)
  return () => source.off('close', onClose)
}

/**
 * Says a last word and lets go, whether or not the other side ever hangs up: what it still sends is thrown away,
 * because closing on unread bytes would take the last word from it.
 */
export function hangUp(client: Socket, word: string | Buffer = ''): void {
  client.end(word)
  client.resume()
  const timer = setTimeout(() => client.destroy(), lingerMs)
  client.once('close', () => clearTimeout(timer))
}
const lingerMs = 2000
