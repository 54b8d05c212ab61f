import { layout } from '../base/paths.ts'
import { ensureRuntimeDir } from '../base/runtime.ts'
import { createChangesets } from '../changeset/index.ts'
import { detectHost, type HostFacts } from '../sandbox/index.ts'
import { openStore } from '../store/index.ts'
import type { Parts } from './parts.ts'

/** Opens the stations of one data folder. */
export async function openParts(places: {
  readonly dataDir: string
  readonly configDir: string
}): Promise<Parts & AsyncDisposable> {
  const { dataDir, configDir } = places
  const store = await openStore(dataDir)
  const runtime = await ensureRuntimeDir(dataDir)
  const paths = layout(dataDir)
  let host: Promise<HostFacts> | undefined
  return {
    layout: paths,
    configDir,
    runtime,
    store,
    changesets: createChangesets({ layout: paths, records: store.changesets }),
    host: () => (host ??= detectHost(dataDir)),
    [Symbol.asyncDispose]: () => store.close(),
  }
}
