import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))

/** Folder of files that ship beside the program: `resources` of the checkout or of the packaged app. */
function resourcesDir(): string {
  const candidates = [
    join(here, '..', '..', '..', 'resources'),
    join(here, '..', '..', 'resources'),
    join(process.execPath, '..', 'resources'),
  ]
  return candidates.find((path) => existsSync(join(path, 'agents'))) ?? join(here, '..', '..', 'resources')
}

export function resourcePath(...parts: string[]): string {
  return join(resourcesDir(), ...parts)
}
