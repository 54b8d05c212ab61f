import { watch, type FSWatcher } from 'node:fs'
import { basename, join } from 'node:path'
import { projectConfigName, userConfigName } from '../../../shared/config.ts'
import type { ConfigPlaces } from './load.ts'
import { foldersOf } from './narrowedTrust.ts'
import { readConfigText } from './read.ts'
import { trustFilePath } from './trust.ts'

/** Editors write in several steps; we look once they are done. */
const settleMs = 150
/** Watchers may be missing or lose events: the look is the truth, the watcher only makes it soon. */
const lookMs = 5_000

const fingerprint = async (files: readonly string[]): Promise<string> => {
  const texts = await Promise.all(
    files.map((file) =>
      readConfigText(file, { follow: !file.endsWith(projectConfigName) }).then(
        (text) => text?.sha256 ?? 'absent',
        (error: unknown) => `unreadable: ${String(error)}`,
      ),
    ),
  )
  return texts.join(' ')
}

const projectFolders = async ({ roots, around = [] }: ConfigPlaces): Promise<readonly string[]> => [
  ...new Set((await Promise.all([...roots, ...around].map(foldersOf))).flat()),
]

/** Calls back when a config file that holds for these roots, or the trust in one, has changed. */
export async function watchConfig(places: ConfigPlaces, onChange: () => void): Promise<AsyncDisposable> {
  const own = [join(places.userConfigDir, userConfigName), trustFilePath(places.userConfigDir)]
  const names = new Set([...own.map((file) => basename(file)), projectConfigName])
  // Also where there is none as yet: one that is put there holds from then on.
  const projects = await projectFolders(places)
  const folders = [places.userConfigDir, ...projects]
  const filesBelow = (found: readonly string[]) => [
    ...own,
    ...found.map((folder) => join(folder, projectConfigName)),
  ]
  let known = await fingerprint(filesBelow(projects))
  let pending: NodeJS.Timeout | undefined
  let looking: Promise<void> = Promise.resolve()
  let closed = false

  const look = () => {
    pending = undefined
    looking = looking.then(async () => {
      const now = await fingerprint(filesBelow(await projectFolders(places)))
      if (closed || now === known) return
      known = now
      onChange()
    })
  }
  const soon = () => {
    pending ??= setTimeout(look, settleMs)
    pending.unref()
  }
  const watchers = folders.flatMap((folder): FSWatcher[] => {
    try {
      const watcher = watch(folder, { persistent: false }, (_event, name) => {
        if (name === null || names.has(name)) soon()
      })
      watcher.on('error', () => watcher.close())
      return [watcher]
    } catch {
      return []
    }
  })
  const timer = setInterval(soon, lookMs)
  timer.unref()
  return {
    async [Symbol.asyncDispose]() {
      closed = true
      clearInterval(timer)
      clearTimeout(pending)
      for (const watcher of watchers) watcher.close()
      await looking
    },
  }
}
