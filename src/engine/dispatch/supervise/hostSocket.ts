import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client, Handlers } from '../../../shared/api.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { connectClient, serveChannel } from '../../../shared/wire/index.ts'
import { accountName } from '../../base/accountName.ts'
import { createRepoLock } from '../../base/lock.ts'
import { connectTo, listenOn } from './lineSocket.ts'
import type { Parts } from '../parts.ts'

const hostSocketPath = (runtime: string) => join(runtime, 'host.sock')
/** Held as long as a host runs; whoever only asks for it holds it for a moment. */
export const hostLockName = 'host'
const askingMs = 500

/** Offers the contract to command lines of the same user, as long as this host runs. */
export async function offerToCommandLines(
  { runtime, layout }: Pick<Parts, 'runtime' | 'layout'>,
  handlers: Handlers,
  onUnexpected: (error: unknown) => void,
): Promise<AsyncDisposable> {
  const path = hostSocketPath(runtime)
  await using claims = new AsyncDisposableStack()
  const locks = createRepoLock(layout)
  claims.use(
    await locks.acquire(hostLockName, { timeoutMs: askingMs }).catch((error: unknown) => {
      throw error instanceof OrangeryError && error.kind === 'busy' ? secondHost(layout.dataDir) : error
    }),
  )
  const server = await listenOn(path, (channel) =>
    serveChannel(handlers, channel, { by: accountName() }, onUnexpected),
  )
  claims.defer(async () => {
    await rm(path, { force: true })
    server.close()
  })
  return claims.move()
}

function secondHost(dataDir: string): OrangeryError {
  return new OrangeryError('host.second', `${dataDir}: another Orangery serves this data folder`, {
    kind: 'busy',
    hint: 'Use the one that runs, or stop it first.',
  })
}

/** The running host's contract, or null where none runs. */
export async function connectToHost(runtime: string): Promise<Client | null> {
  const channel = await connectTo(hostSocketPath(runtime))
  return channel === null ? null : connectClient(channel)
}
