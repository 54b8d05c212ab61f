import type { ChildProcess } from 'node:child_process'
import type { Socket } from 'node:net'
import { z } from 'zod'
import type { HostAlias } from '../../base/sandbox.ts'
import type { Order } from './wire.ts'

const listenedSchema = z.object({ listened: z.string() })
const patienceMs = 2000
/** In a container the agent may hold the socket too, and pretend to be a relay: it fools itself, in these bounds. */
const mostEars = 8
const longestWord = 1024
const mostUnread = 1024 * 1024

/** How one relay is told. */
type Ear = {
  send(order: Order): void
  /** Whether it hears of the list of hosts from us; a relay that was started by others hears from those. */
  readonly wantsHosts: boolean
}

/**
 * Tells the relay of a sandbox what to listen for: over the channel it was started with, or over the socket, where
 * that is all it has. Without a relay nobody listens, and nothing waits.
 */
export class RelayLine {
  readonly #ears = new Set<Ear>()
  readonly #waiting = new Map<string, Set<(listens: boolean) => void>>()

  get isUp(): boolean {
    return this.#ears.size > 0
  }

  connect(relay: ChildProcess): void {
    if (!relay.connected) return
    const ear: Ear = {
      wantsHosts: false,
      send: (order) => {
        relay.send(order, (error) => {
          if (error !== null) this.#lose(ear)
        })
      },
    }
    this.#ears.add(ear)
    relay.on('message', (message) => this.#hear(message))
    relay.once('disconnect', () => this.#lose(ear))
  }

  /** A relay that came by the socket is told at once which hosts there are, and then of every change. */
  connectSocket(client: Socket, hosts: readonly HostAlias[]): void {
    if (this.#ears.size >= mostEars) return void client.destroy()
    const ear: Ear = {
      wantsHosts: true,
      send: (order) => {
        if (client.writableLength > mostUnread) return void client.destroy()
        client.write(`${JSON.stringify(order)}\n`)
      },
    }
    this.#ears.add(ear)
    client.once('close', () => this.#lose(ear))
    client.once('end', () => client.destroy())
    let rest = ''
    client.on('data', (chunk: Buffer) => {
      const lines = (rest + chunk.toString('latin1')).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) this.#hear(jsonOf(line))
      if (rest.length > longestWord) client.destroy()
    })
    client.resume()
    ear.send({ hosts })
  }

  /** Resolves once everything it could listen on has been passed on: messages keep their order. */
  async listen(alias: HostAlias): Promise<boolean> {
    if (!this.isUp) return false
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const waiting = this.#waiting.get(alias.address) ?? new Set()
    this.#waiting.set(alias.address, waiting.add(resolve))
    const timer = setTimeout(() => resolve(false), patienceMs)
    for (const ear of this.#ears) ear.send({ listen: alias })
    const listens = await promise
    clearTimeout(timer)
    waiting.delete(resolve)
    return listens
  }

  forget(alias: HostAlias): void {
    for (const ear of this.#ears) ear.send({ forget: alias })
  }

  setHosts(hosts: readonly HostAlias[]): void {
    for (const ear of this.#ears) if (ear.wantsHosts) ear.send({ hosts })
  }

  /** Whether somebody was told to break off what he carries under that name. */
  reset(id: string): boolean {
    const carrying = [...this.#ears].filter(({ wantsHosts }) => wantsHosts)
    for (const ear of carrying) ear.send({ reset: id })
    return carrying.length > 0
  }

  #hear(message: unknown): void {
    const parsed = listenedSchema.safeParse(message)
    if (parsed.success) this.#settle(parsed.data.listened, true)
  }

  #lose(ear: Ear): void {
    this.#ears.delete(ear)
    if (!this.isUp) for (const address of this.#waiting.keys()) this.#settle(address, false)
  }

  #settle(address: string, listens: boolean): void {
    const waiting = this.#waiting.get(address)
    this.#waiting.delete(address)
    for (const resolve of waiting ?? []) resolve(listens)
  }
}

function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return null
  }
}
