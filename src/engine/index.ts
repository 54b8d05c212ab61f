import type { Client, Handlers, SpawnInput } from '../shared/api.ts'
import type { Orphan } from '../shared/invocation.ts'
import { spawnInputSchema } from '../shared/api.ts'
import { channelPair, connectClient, serveChannel } from '../shared/wire/index.ts'
import { accountName } from './base/accountName.ts'
import { defaultConfigDir, defaultDataDir, realFolder } from './base/paths.ts'
import { knownRuntimeDir } from './base/runtime.ts'
import {
  connectToHost,
  createHandlers,
  leaveCaretaker,
  offerToCommandLines,
  openParts,
  reconcile,
  recoverLandings,
  runForeground,
  Supervisors,
  tidyUp,
  type Foreground,
  type ForegroundOptions,
  type HostKind,
  type Parts,
} from './dispatch/index.ts'

import { expireArchive } from './workspace/index.ts'

export { defaultDataDir } from './base/paths.ts'
export { version } from './dispatch/index.ts'
/** What the machine can do, also where the records of the data folder cannot be opened. */
export { doctor as inspectHost } from './sandbox/index.ts'

export type EngineOptions = {
  readonly dataDir?: string
  readonly host: HostKind
  /** Told of errors that are our own fault; nobody else sees their details. */
  readonly onUnexpected?: (error: unknown) => void
}

/** Everything behind the window, for any host. */
export interface Engine extends AsyncDisposable {
  readonly dataDir: string
  readonly handlers: Handlers
  /** The contract in process, over the same messages as everywhere. */
  readonly client: Client
  runForeground(input: SpawnInput, options: ForegroundOptions): Promise<Foreground>
  /** Lets command lines of this user speak to this host; one host per data folder. */
  offerToCommandLines(): Promise<void>
  close(): Promise<void>
}

export async function createEngine(options: EngineOptions): Promise<Engine> {
  const dataDir = options.dataDir === undefined ? defaultDataDir() : realFolder(options.dataDir)
  const configDir = defaultConfigDir()
  const onUnexpected = options.onUnexpected ?? (() => {})
  const resources = new AsyncDisposableStack()
  try {
    const parts = resources.use(await openParts({ dataDir, configDir }))
    const stays = options.host !== 'command-line'
    const supervisors = resources.use(new Supervisors({ dataDir, configDir }, stays))
    let found: Promise<Orphan[]> | undefined
    const reconciled = () => (found ??= reconcile(parts, { patient: true }))
    const handlers = createHandlers(parts, supervisors, options.host, reconciled)
    await recoverLandings(parts).catch(onUnexpected)
    await tidyUp(parts, onUnexpected)
    if (stays) {
      resources.use(every(watchMs, () => tidyUp(parts, onUnexpected), onUnexpected))
      resources.use(every(expiryMs, () => expire(parts), onUnexpected))
      const tidying = expire(parts).catch(onUnexpected)
      reconciled().catch(onUnexpected)
      // Both look at files while the window comes up; closing waits for them.
      resources.defer(async () => void (await Promise.allSettled([tidying, found])))
    }
    const [near, far] = channelPair()
    serveChannel(handlers, far, { by: accountName() }, onUnexpected)
    const client = connectClient(near)
    resources.defer(() => client.close())
    const close = () => resources.disposeAsync()
    return {
      dataDir,
      handlers,
      client,
      runForeground: (input, how) => runForeground(parts, spawnInputSchema.parse(input), how),
      async offerToCommandLines() {
        resources.use(leaveCaretaker({ dataDir, configDir }))
        resources.use(await offerToCommandLines(parts, handlers, onUnexpected))
      },
      close,
      [Symbol.asyncDispose]: close,
    }
  } catch (error) {
    await resources.disposeAsync()
    throw error
  }
}

/** What was given up is kept for its time: the changeset, and the files it was made of. */
async function expire(parts: Parts): Promise<void> {
  await parts.changesets.expire()
  await expireArchive(parts.layout)
}

const watchMs = 2_000
const expiryMs = 6 * 60 * 60 * 1000

/** Repeats something, one at a time. */
function every(ms: number, work: () => Promise<unknown>, onUnexpected: (error: unknown) => void): Disposable {
  let working = false
  const timer = setInterval(() => {
    if (working) return
    working = true
    work()
      .catch(onUnexpected)
      .finally(() => {
        working = false
      })
  }, ms)
  timer.unref()
  return { [Symbol.dispose]: () => clearInterval(timer) }
}

/** The contract of the host that runs on this data folder, or null where none does. */
export async function connectToRunningHost(dataDir = defaultDataDir()): Promise<Client | null> {
  const runtime = await knownRuntimeDir(dataDir)
  return runtime === null ? null : connectToHost(runtime)
}
