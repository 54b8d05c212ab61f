import { createSocket, type Socket as DatagramSocket } from 'node:dgram'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { namePort, nameServer, type HostAlias } from '../base/sandbox.ts'
import { framed, readFramed } from './nameServer.ts'
import { readUntil } from './reading.ts'
import { encodeOpening, isLasting, listenerKeys, nameKeys, proxyKey, type Opening } from './wire.ts'

export type RelaySettings = {
  /** Path of the broker's socket. */
  readonly broker: string
  readonly proxyPort: number
  readonly aliases: readonly HostAlias[]
}

/** What listens at an address of the sandbox; where the broker accepts by itself, it is given the listener. */
export type Listener = { readonly key: string; close(): void }
export type Listen = {
  readonly passesOn: boolean
  connections(key: string, server: Server, opening: Opening): Listener
  /** Questions for names. */
  datagrams(key: string, socket: DatagramSocket): Listener
}

/** Sends a message, with a descriptor, over the channel of the process that started us. */
export type Send = (message: Passed, handle?: Server | DatagramSocket, sent?: () => void) => void
/** A listener for the broker, or, without an opening, word that it is gone. */
export type Passed = { readonly key: string; readonly opening?: Opening }

export interface Relay {
  /** Listens where the new list says and no longer where it does not; gives what could not be listened on. */
  setAliases(aliases: readonly HostAlias[]): Promise<readonly string[]>
  /** Listens for a host beside those of the list. */
  listenAt(alias: HostAlias): Promise<void>
  forget(alias: HostAlias): void
  close(): void
}

/** More than the broker lets through at one time; what goes beyond is dropped without a descriptor held. */
const mostConnections = 4096
const mostQuestions = 256
const questionMs = 60_000

export async function startRelay(settings: RelaySettings, listening: Listen): Promise<Relay> {
  const listeners = new Map<string, Listener>()
  const asked = new Map<string, HostAlias>()
  let named: ReadonlySet<string> = new Set()
  let last: Promise<unknown> = Promise.resolve()
  /** One change after the other: two that want the same address would take it from each other. */
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const next = last.catch(() => {}).then(work)
    last = next
    return next
  }

  const listen = (key: string, address: string, port: number, opening: Opening) =>
    new Promise<void>((resolve, reject) => {
      const server = createServer({ allowHalfOpen: true, noDelay: true })
      server.once('error', reject)
      server.listen({ host: address, port, backlog: 4096 }, () => {
        listeners.set(key, listening.connections(key, server, opening))
        resolve()
      })
    })
  const listenForQuestions = () =>
    new Promise<void>((resolve, reject) => {
      const socket = createSocket('udp4')
      socket.once('error', reject)
      socket.bind(namePort, nameServer, () => {
        listeners.set(nameKeys.datagrams, listening.datagrams(nameKeys.datagrams, socket))
        resolve()
      })
    })

  const listenFor = async ({ host, address, ports }: HostAlias): Promise<readonly string[]> => {
    const failed: string[] = []
    for (const port of ports) {
      const key = `${address}:${port}`
      if (listeners.has(key)) continue
      await listen(key, address, port, { kind: 'alias', host, port }).catch(() =>
        failed.push(`${host}:${port}`),
      )
    }
    return failed
  }
  const closeUnwanted = () => {
    const wanted = new Set([...named, ...[...asked.values()].flatMap(listenerKeys)])
    for (const [key, listener] of listeners) {
      if (isLasting(key) || wanted.has(key)) continue
      listeners.delete(key)
      listener.close()
    }
  }

  const setAliases = async (aliases: readonly HostAlias[]) => {
    named = new Set(aliases.flatMap(listenerKeys))
    closeUnwanted()
    const failed: string[] = []
    for (const alias of aliases) failed.push(...(await listenFor(alias)))
    return failed
  }

  await listen(proxyKey, '127.0.0.1', settings.proxyPort, { kind: 'proxy' }).catch((error: unknown) => {
    // A relay before this one has given it to the broker.
    if (!listening.passesOn || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
  })
  // Where nobody may listen on that port, names do not resolve, and that is all.
  await listenForQuestions().catch(() => {})
  await listen(nameKeys.connections, nameServer, namePort, { kind: 'names' }).catch(() => {})
  await setAliases(settings.aliases)
  return {
    setAliases: (aliases) => inTurn(() => setAliases(aliases)),
    listenAt: (alias) =>
      inTurn(async () => {
        asked.set(alias.host, alias)
        await listenFor(alias)
      }),
    forget: (alias) => {
      void inTurn(async () => {
        asked.delete(alias.host)
        closeUnwanted()
      })
    },
    close: () => {
      for (const listener of listeners.values()) listener.close()
      listeners.clear()
    },
  }
}

/** Carries every connection to the broker over its socket: for where descriptors cannot be passed (containers). */
export function carryOver(broker: string): Listen {
  let open = 0
  let questions = 0
  return {
    passesOn: false,
    connections(key, server, opening) {
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
    },
    datagrams(key, socket) {
      socket.on('error', () => {})
      socket.on('message', (message, { address, port }) => {
        if (questions >= mostQuestions) return
        questions++
        const tunnel = connect({ path: broker })
        tunnel.on('error', () => {})
        tunnel.once('close', () => questions--)
        tunnel.write(Buffer.concat([Buffer.from(encodeOpening({ kind: 'names' })), framed(message)]))
        void readUntil(tunnel, readFramed, questionMs).then((answer) => {
          if (answer !== null) socket.send(answer, port, address, () => {})
          tunnel.destroy()
        })
      })
      return { key, close: () => socket.close() }
    },
  }
}

/**
 * Gives the listening socket itself to the broker, which then accepts in this namespace from outside: one hop
 * less for every byte and every connection.
 */
export function handOver(send: Send): Listen {
  // Our copy would take connections and questions too, and nobody would answer.
  const pass = (key: string, handle: Server | DatagramSocket, opening: Opening): Listener => {
    send({ key, opening }, handle, () => handle.close())
    return { key, close: () => send({ key }) }
  }
  return {
    passesOn: true,
    connections: pass,
    datagrams: (key, socket) => pass(key, socket, { kind: 'names' }),
  }
}
