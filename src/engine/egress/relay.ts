import { connect, createServer, type Server, type Socket } from 'node:net'
import type { HostAlias } from '../base/sandbox.ts'
import { encodeOpening, proxyKey, type Opening } from './wire.ts'

export type RelaySettings = {
  /** Path of the broker's socket. */
  readonly broker: string
  readonly proxyPort: number
  readonly aliases: readonly HostAlias[]
}

/** What listens at an address of the sandbox; where the broker accepts by itself, it is given the listener. */
export type Listener = { readonly key: string; close(): void }
export type Listen = ((key: string, server: Server, opening: Opening) => Listener) & {
  readonly passesOn: boolean
}

/** Sends a message, with a descriptor, over the channel of the process that started us. */
export type Send = (message: Passed, server?: Server, sent?: () => void) => void
/** A listener for the broker, or, without an opening, word that it is gone. */
export type Passed = { readonly key: string; readonly opening?: Opening }

export interface Relay {
  /** Listens where the new list says and no longer where it does not; gives what could not be listened on. */
  setAliases(aliases: readonly HostAlias[]): Promise<readonly string[]>
  close(): void
}

/** More than the broker lets through at one time; what goes beyond is dropped without a descriptor held. */
const mostConnections = 4096

export async function startRelay(settings: RelaySettings, listening: Listen): Promise<Relay> {
  const listeners = new Map<string, Listener>()

  const listen = (key: string, address: string, port: number, opening: Opening) =>
    new Promise<void>((resolve, reject) => {
      const server = createServer({ allowHalfOpen: true, noDelay: true })
      server.once('error', reject)
      server.listen({ host: address, port, backlog: 4096 }, () => {
        listeners.set(key, listening(key, server, opening))
        resolve()
      })
    })

  const setAliases = async (aliases: readonly HostAlias[]) => {
    const wanted = new Map<string, HostAlias & { port: number }>()
    for (const alias of aliases) {
      for (const port of alias.ports) wanted.set(`${alias.address}:${port}`, { ...alias, port })
    }
    for (const [key, listener] of listeners) {
      if (key === proxyKey || wanted.has(key)) continue
      listeners.delete(key)
      listener.close()
    }
    const failed: string[] = []
    for (const [key, { address, host, port }] of wanted) {
      if (listeners.has(key)) continue
      await listen(key, address, port, { kind: 'alias', host, port }).catch(() =>
        failed.push(`${host}:${port}`),
      )
    }
    return failed
  }

  await listen(proxyKey, '127.0.0.1', settings.proxyPort, { kind: 'proxy' }).catch((error: unknown) => {
    // A relay before this one has given it to the broker.
    if (!listening.passesOn || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
  })
  await setAliases(settings.aliases)
  return {
    setAliases,
    close: () => {
      for (const listener of listeners.values()) listener.close()
      listeners.clear()
    },
  }
}

/** Carries every connection to the broker over its socket: for where descriptors cannot be passed (containers). */
export function carryOver(broker: string): Listen {
  let open = 0
  const carry = (key: string, server: Server, opening: Opening): Listener => {
    const line = encodeOpening(opening)
    server.on('connection', (client: Socket) => {
      open++
      client.once('close', () => open--)
      client.on('error', () => client.destroy())
      if (open > mostConnections) return void client.resetAndDestroy()
      const tunnel = connect({ path: broker, allowHalfOpen: true })
      // No broker, no way out: the program's connection is reset, and nothing is tried elsewhere.
      tunnel.on('error', () => client.resetAndDestroy())
      client.once('close', () => tunnel.destroy())
      tunnel.once('close', () => client.destroy())
      tunnel.write(line)
      client.pipe(tunnel)
      tunnel.pipe(client)
    })
    return { key, close: () => server.close() }
  }
  return Object.assign(carry, { passesOn: false })
}

/**
 * Gives the listening socket itself to the broker, which then accepts in this namespace from outside: one hop
 * less for every byte and every connection.
 */
export function handOver(send: Send): Listen {
  const pass = (key: string, server: Server, opening: Opening): Listener => {
    // Our copy would accept too, and nobody would answer.
    send({ key, opening }, server, () => server.close())
    return { key, close: () => send({ key }) }
  }
  return Object.assign(pass, { passesOn: true })
}
