import { randomUUID } from 'node:crypto'
import { createSocket, type Socket as DatagramSocket } from 'node:dgram'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { namePort, nameServer, type HostAlias } from '../../base/sandbox.ts'
import { framed, readFramed, sendAnswer } from '../lookups/nameServer.ts'
import { readUntil } from './reading.ts'
import {
  encodeOpening,
  isLasting,
  listenerKeys,
  nameKeys,
  proxyKey,
  type Opening,
  type Order,
  type PassedQuestion,
} from './wire.ts'

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
  /** Breaks a connection off that is carried under that name. */
  reset(id: string): void
}

/** Sends a message, with a descriptor, over the channel of the process that started us. */
export type Send = (message: Passed, handle?: Server | Socket | DatagramSocket, sent?: () => void) => void
/** A listener for the broker, a connection we took before it was the broker's, or, without an opening, its end. */
export type Passed = {
  readonly key: string
  readonly opening?: Opening
  /** One that came to us while the socket was on its way; the answer goes out from there. */
  readonly question?: PassedQuestion
}

export interface Relay {
  /** Listens where the new list says and no longer where it does not; gives what could not be listened on. */
  setAliases(aliases: readonly HostAlias[]): Promise<readonly string[]>
  /** Does what the broker says; gives the address at which it listens now, where that was the order. */
  follow(order: Order): Promise<string | null>
  close(): void
}

/** More than the broker lets through at one time; what goes beyond is dropped without a descriptor held. */
const mostConnections = 4096
const mostQuestions = 256
const questionMs = 60_000

/** Sockets that were opened before us, by what they are for: somebody may be waiting there already. */
export type Inherited = ReadonlyMap<string, number>

/** `KEY=DESCRIPTOR,…` */
export const inheritedFrom = (text = ''): Inherited =>
  new Map([...text.matchAll(/([^=,]+)=(\d+)/g)].map(([, key = '', descriptor]) => [key, Number(descriptor)]))

export async function startRelay(
  settings: RelaySettings,
  listening: Listen,
  inherited: Inherited = new Map(),
): Promise<Relay> {
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
      const server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: listening.passesOn })
      server.once('error', reject)
      const fd = inherited.get(key)
      server.listen({ ...(fd === undefined ? { host: address, port } : { fd }), backlog: 4096 }, () => {
        listeners.set(key, listening.connections(key, server, opening))
        resolve()
      })
    })
  const listenForQuestions = () =>
    new Promise<void>((resolve, reject) => {
      const socket = createSocket('udp4')
      socket.once('error', reject)
      const fd = inherited.get(nameKeys.datagrams)
      socket.bind(fd === undefined ? { port: namePort, address: nameServer } : { fd }, () => {
        listeners.set(nameKeys.datagrams, listening.datagrams(nameKeys.datagrams, socket))
        resolve()
      })
    })

  const listenFor = async (
    { host, address }: HostAlias,
    ports: readonly number[],
  ): Promise<readonly string[]> => {
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
  /** Where nothing leads out anyway is listened on when nobody waits any more for what does. */
  const listenLater = (aliases: readonly HostAlias[]) => {
    void inTurn(async () => {
      for (const alias of aliases) {
        const isWanted = asked.has(alias.host) || listenerKeys(alias).every((key) => named.has(key))
        if (isWanted) await listenFor(alias, alias.laterPorts ?? [])
      }
    })
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
    // Asked for before the list named it, it goes when the list does: the broker has let go of it by itself.
    for (const { host } of aliases) asked.delete(host)
    closeUnwanted()
    const failed: string[] = []
    for (const alias of aliases) failed.push(...(await listenFor(alias, alias.ports)))
    listenLater(aliases)
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
    follow: async (order) => {
      if ('reset' in order) {
        listening.reset(order.reset)
        return null
      }
      return inTurn(async () => {
        if ('hosts' in order) await setAliases(order.hosts)
        else if ('forget' in order) {
          asked.delete(order.forget.host)
          closeUnwanted()
        } else {
          const { listen: alias } = order
          if (!listenerKeys(alias).every((key) => named.has(key))) asked.set(alias.host, alias)
          await listenFor(alias, alias.ports)
          listenLater([alias])
          return alias.address
        }
        return null
      })
    },
    close: () => {
      for (const listener of listeners.values()) listener.close()
      listeners.clear()
    },
  }
}

const orderPatienceMs = 300

/**
 * Asks the broker over its socket what to listen on, now and from now on. Resolves when the first word was followed,
 * or none comes: then what the relay was started with is all there is.
 */
export function takeOrders(broker: string, relay: Relay): Promise<void> {
  return new Promise((resolve) => {
    const line = connect({ path: broker })
    const timer = setTimeout(resolve, orderPatienceMs)
    line.on('error', () => {})
    line.once('close', () => {
      clearTimeout(timer)
      resolve()
    })
    line.write(encodeOpening({ kind: 'orders' }))
    createInterface({ input: line }).on('line', (text) => {
      const order = orderOf(text)
      if (order === null) return void line.destroy()
      void relay.follow(order).then((address) => {
        clearTimeout(timer)
        resolve()
        if (address !== null) line.write(`${JSON.stringify({ listened: address })}\n`)
      })
    })
  })
}

function orderOf(text: string): Order | null {
  try {
    return JSON.parse(text) as Order
  } catch {
    return null
  }
}

/** Carries every connection to the broker over its socket: for where descriptors cannot be passed (containers). */
export function carryOver(broker: string): Listen {
  let open = 0
  let questions = 0
  const carried = new Map<string, Socket>()
  return {
    passesOn: false,
    reset: (id) => void carried.get(id)?.resetAndDestroy(),
    connections(key, server, opening) {
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
        const id = randomUUID()
        carried.set(id, client)
        client.once('close', () => carried.delete(id))
        tunnel.write(encodeOpening({ ...opening, id }))
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
          if (answer !== null) sendAnswer(socket, answer, port, address)
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
    // What is carried here is the broker's own.
    reset: () => {},
    connections(key, server, opening) {
      // Who was quick enough to come to us is the broker's all the same, or would wait for ever.
      server.on('connection', (client: Socket) => {
        client.on('error', () => client.destroy())
        send({ key, opening }, client)
      })
      return pass(key, server, opening)
    },
    datagrams(key, socket) {
      socket.on('message', (message, { address, port }) =>
        send({ key, question: { message: message.toString('base64'), address, port } }),
      )
      return pass(key, socket, { kind: 'names' })
    },
  }
}
