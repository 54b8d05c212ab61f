import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Programs of ours that run in a process of their own. */
export type Entry = 'supervisor' | 'caretaker' | 'relay' | 'overhear'

const sources: Readonly<Record<Entry, string>> = {
  supervisor: 'dispatch/supervise/supervisor.main.ts',
  caretaker: 'dispatch/recover/caretaker.main.ts',
  relay: 'egress/line/relay.main.ts',
  overhear: 'egress/presets/overhear.main.ts',
}

const here = dirname(fileURLToPath(import.meta.url))

/**
 * The command that starts one of our programs: the bundle beside this one, or the source itself when we run
 * from source (tests, bench). In the packaged app `process.execPath` is Electron, which runs as Node when
 * `entryEnv` is in its environment. Bundles start in a third of the time, so that slow tests name their folder.
 */
export function entryCommand(entry: Entry): readonly [string, ...string[]] {
  if (import.meta.url.endsWith('.ts')) {
    const built = process.env['ORANGERY_BUNDLES']
    if (built !== undefined) return [process.execPath, join(built, `${entry}.js`)]
    return [process.execPath, '--disable-warning=ExperimentalWarning', join(here, '..', sources[entry])]
  }
  const bundle = [join(here, `${entry}.js`), join(here, '..', `${entry}.js`)].find((path) => existsSync(path))
  return [process.execPath, bundle ?? join(here, `${entry}.js`)]
}

export const entryEnv: Readonly<Record<string, string>> =
  'electron' in process.versions ? { ELECTRON_RUN_AS_NODE: '1' } : {}
