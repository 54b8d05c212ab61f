import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client, Handlers } from '../../shared/api.ts'
import { connectClient, serveChannel } from '../../shared/wire/index.ts'
import { connectTo, listenOn } from './lineSocket.ts'

const hostSocketPath = (runtime: string) => join(runtime, 'host.sock')

/** Offers the contract to command lines of the same user, as long as this host runs. */
export async function offerToCommandLines(
  runtime: string,
  handlers: Handlers,
  onUnexpected: (error: unknown) => void,
): Promise<AsyncDisposable> {
  const path = hostSocketPath(runtime)
  const server = await listenOn(path, (channel) =>
    serveChannel(handlers, channel, { by: 'command line' }, onUnexpected),
  )
  return {
    async [Symbol.asyncDispose]() {
      await rm(path, { force: true })
      server.close()
    },
  }
}

/** The running host's contract, or null where none runs. */
export async function connectToHost(runtime: string): Promise<Client | null> {
  const channel = await connectTo(hostSocketPath(runtime))
  return channel === null ? null : connectClient(channel)
}
