import { spawnSync } from 'node:child_process'
import { chownSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Place, Ran } from '../../src/cli/testing/orangery.ts'

export type User = {
  readonly options: { readonly through: readonly string[]; readonly env: Record<string, string> }
}

/** How to start something as an ordinary user of this machine, or why that cannot be. */
export function ordinaryUser(place: Place): User | string {
  if (process.getuid?.() !== 0) return { options: { through: [], env: {} } }
  const through = ['setpriv', '--reuid=1000', '--regid=1000', '--clear-groups', '--']
  const [launcher = ''] = place.command
  const seen = spawnSync(through[0] ?? '', [...through.slice(1), 'test', '-r', launcher])
  if (seen.status !== 0) return 'an ordinary user cannot read this checkout'
  for (const path of [
    place.home,
    place.dataDir,
    place.folder,
    join(place.home, 'config'),
    join(place.home, 'run'),
    place.temporary,
  ]) {
    chownSync(path, 1000, 1000)
  }
  const home = join(place.home, 'home')
  mkdirSync(home, { recursive: true })
  chownSync(home, 1000, 1000)
  return { options: { through, env: { HOME: home, XDG_CACHE_HOME: join(home, '.cache') } } }
}

export function asUser(
  place: Place,
  { options }: User,
  env: Record<string, string>,
  ...args: string[]
): Promise<Ran> {
  return place.orangeryWith({ ...options, env: { ...options.env, ...env } }, ...args)
}
