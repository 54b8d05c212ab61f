import { connect, createServer, type Server, type Socket } from 'node:net'
import type { HostAlias } from '../base/sandbox.ts'
import { encodeOpening, type Opening } from './wire.ts'

export type RelaySettings = {
  /** Path of the broker's socket. */
  readonly broker: string
  readonly proxyPort: number
  readonly aliases: readonly HostAlias[]
}

export interface Relay {
  /** Listens where the new list says and no longer where it does not; gives what could not be listened on. */
  setAliases(aliases: readonly HostAlias[]): Promise<readonly string[]>
  close(): Promise<void>
}

/** More than the broker lets through at one time; what goes beyond is dropped without a descriptor held. */
const mostConnections = 4096

export async function startRelay(settings: RelaySettings): Promise<Relay> {
  const servers = new Map<string, Server>()
  let open = 0

  const accept = (opening: Opening) => {
    const line = encodeOpening(opening)
    return (client: Socket) => {
      open++
      client.once('close', () => open--)
      client.on('error', () => client.destroy())
      if (open > mostConnections) return void client.resetAndDestroy()
      const broker = connect({ path: settings.broker, allowHalfOpen: true })
      // No broker, no way out: the program's connection is reset, and nothing is tried elsewhere.
      broker.on('error', () => client.resetAndDestroy())
      client.once('close', () => broker.destroy())
      broker.once('close', () => client.destroy())
      broker.write(line)
      client.pipe(broker)
      broker.pipe(client)
    }
  }

  const listen = (address: string, port: number, opening: Opening) =>
    new Promise<Server>((resolve, reject) => {
      const server = createServer({ allowHalfOpen: true, noDelay: true }, accept(opening))
      server.once('error', reject)
      server.listen({ host: address, port, backlog: 4096 }, () => resolve(server))
    })

  const setAliases = async (aliases: readonly HostAlias[]) => {
    const wanted = new Map<string, HostAlias & { port: number }>()
    for (const alias of aliases) {
      for (const port of alias.ports) wanted.set(`${alias.address}:${port}`, { ...alias, port })
    }
    for (const [key, server] of servers) {
      if (wanted.has(key)) continue
      servers.delete(key)
      server.close()
    }
    const failed: string[] = []
    for (const [key, { address, host, port }] of wanted) {
      if (servers.has(key)) continue
      try {
        servers.set(key, await listen(address, port, { kind: 'alias', host, port }))
      } catch {
        failed.push(`${host}:${port}`)
      }
    }
    return failed
  }

  const proxy = await listen('127.0.0.1', settings.proxyPort, { kind: 'proxy' })
  await setAliases(settings.aliases)
  return {
    setAliases,
    close: async () => {
      for (const server of [proxy, ...servers.values()]) server.close()
      servers.clear()
    },
  }
}
