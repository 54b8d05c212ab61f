import type { ChildProcess } from 'node:child_process'
import { z } from 'zod'
import type { HostAlias } from '../base/sandbox.ts'
import type { Order } from './wire.ts'

const listenedSchema = z.object({ listened: z.string() })
const patienceMs = 2000

/** Tells the relay of a sandbox to listen for one more host. Without a relay nobody does, and nothing waits. */
export class RelayLine {
  #relay: ChildProcess | null = null
  readonly #waiting = new Map<string, Set<(listens: boolean) => void>>()

  get isUp(): boolean {
    return this.#relay?.connected === true
  }

  connect(relay: ChildProcess): void {
    this.#relay = relay
    relay.on('message', (message) => {
      const parsed = listenedSchema.safeParse(message)
      if (parsed.success) this.#settle(parsed.data.listened, true)
    })
    relay.once('disconnect', () => {
      if (this.#relay === relay) for (const address of this.#waiting.keys()) this.#settle(address, false)
    })
  }

  /** Resolves once everything it could listen on has been passed on: messages keep their order. */
  async listen(alias: HostAlias): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const waiting = this.#waiting.get(alias.address) ?? new Set()
    this.#waiting.set(alias.address, waiting.add(resolve))
    const timer = setTimeout(() => resolve(false), patienceMs)
    this.#send({ listen: alias }, () => resolve(false))
    const listens = await promise
    clearTimeout(timer)
    waiting.delete(resolve)
    return listens
  }

  forget(alias: HostAlias): void {
    this.#send({ forget: alias }, () => {})
  }

  #send(order: Order, onFailure: () => void): void {
    if (!this.isUp) return onFailure()
    this.#relay?.send(order, (error) => {
      if (error !== null) onFailure()
    })
  }

  #settle(address: string, listens: boolean): void {
    const waiting = this.#waiting.get(address)
    this.#waiting.delete(address)
    for (const resolve of waiting ?? []) resolve(listens)
  }
}
