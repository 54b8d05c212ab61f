import type { Client } from '../shared/api.ts'
import type { DoctorReport } from '../shared/doctor.ts'
import type { Engine } from '../engine/index.ts'
import { logUnexpected } from '../engine/base/log.ts'
import { defaultDataDir } from '../engine/base/paths.ts'

// The engine is loaded only when a command needs it: `--help` and completion stay quick.
const loadEngine = () => import('../engine/index.ts')

export const onUnexpected = (error: unknown): void => void logUnexpected(defaultDataDir(), error)

/** An engine in this process. */
export async function openEngine(host: 'command-line' | 'browser' = 'command-line'): Promise<Engine> {
  const { createEngine } = await loadEngine()
  return createEngine({ dataDir: defaultDataDir(), host, onUnexpected })
}

type Connection = AsyncDisposable & { readonly client: Client }

/** The running host where there is one, else an engine of our own. */
async function connect(): Promise<Connection> {
  const { connectToRunningHost } = await loadEngine()
  const client = await connectToRunningHost(defaultDataDir())
  if (client === null) return openEngine()
  return {
    client,
    async [Symbol.asyncDispose]() {
      client.close()
    },
  }
}

/** What needs no records, for when they cannot be opened. */
export async function inspectHost(): Promise<DoctorReport> {
  const engine = await loadEngine()
  return engine.inspectHost(defaultDataDir())
}

/** Does the work with a client and closes it, whatever happens. */
export async function withClient<T>(work: (client: Client) => Promise<T>): Promise<T> {
  await using connection = await connect()
  return await work(connection.client)
}
