import { obeyedBelow } from '../base/obeyed.ts'
import { layout } from '../base/paths.ts'
import { ensureRuntimeDir, leaveRuntimeDir } from '../base/runtime.ts'
import { createChangesets } from '../changeset/index.ts'
import { loadConfig } from '../policy/index.ts'
import { currentHost, detectHost, SecretWatch, type HostFacts } from '../sandbox/index.ts'
import { openStore } from '../store/index.ts'
import type { Parts } from './parts.ts'

/** What the user protects, and our own config, which would let an agent widen itself. (escape: config-by-changeset) */
async function protectedPaths(configDir: string, roots: readonly string[]): Promise<readonly string[]> {
  const own = (await Promise.all(roots.map((root) => obeyedBelow(root, configDir)))).flat()
  const config = await loadConfig({ userConfigDir: configDir, roots }).catch(() => null)
  // A config that cannot be read may have protected anything.
  return config === null ? ['**'] : [...config.changesetProtectedPaths, ...own]
}

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
  let watch: SecretWatch | undefined
  const lookAgain = async (known: Promise<HostFacts>) => {
    using watched = watch
    watch = undefined
    const [facts, isChanged] = await Promise.all([known, watched?.isChanged() ?? false])
    return currentHost(facts, dataDir, isChanged)
  }
  return {
    layout: paths,
    configDir,
    runtime,
    store,
    changesets: createChangesets({
      layout: paths,
      records: store.changesets,
      protectedPaths: (roots) => protectedPaths(configDir, roots),
    }),
    host: () => (host ??= detectHost(dataDir)),
    hostNow: () => (host = lookAgain(host ?? detectHost(dataDir))),
    async watchHost() {
      watch ??= new SecretWatch()
      await watch.start(await (host ??= detectHost(dataDir)))
    },
    async [Symbol.asyncDispose]() {
      watch?.[Symbol.dispose]()
      await store.close()
      await leaveRuntimeDir(dataDir, runtime)
    },
  }
}
