import { watch, type FSWatcher } from 'node:fs'
import { join } from 'node:path'
import { projectConfigName, userConfigName } from '../../../shared/config.ts'
import { projectFolderOf, projectHomeOf, type ConfigPlaces } from './load.ts'
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

/** Calls back when a config file that holds for these roots, or the trust in one, has changed. */
export async function watchConfig(places: ConfigPlaces, onChange: () => void): Promise<AsyncDisposable> {
  const folders = new Set<string>([places.userConfigDir])
  const files = [join(places.userConfigDir, userConfigName), trustFilePath(places.userConfigDir)]
  for (const root of places.roots) {
    for (const folder of new Set([await projectFolderOf(root), (await projectHomeOf(root)).home])) {
      folders.add(folder)
      files.push(join(folder, projectConfigName))
    }
  }
  const names = new Set(files.map((file) => file.slice(file.lastIndexOf('/') + 1)))
  let known = await fingerprint(files)
  let pending: NodeJS.Timeout | undefined
  let looking: Promise<void> = Promise.resolve()
  let closed = false

  const look = () => {
    pending = undefined
    looking = looking.then(async () => {
      const now = await fingerprint(files)
      if (closed || now === known) return
      known = now
      onChange()
    })
  }
  const soon = () => {
    pending ??= setTimeout(look, settleMs)
    pending.unref()
  }
  const watchers = [...folders].flatMap((folder): FSWatcher[] => {
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
