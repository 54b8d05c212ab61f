import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { diskUse } from './disk.ts'

export type Leftover = { readonly path: string; readonly bytes: number }

/** What tools left in the agent's home (caches, settings, histories): contained there, never landed. */
export async function listLeftovers(home: string): Promise<readonly Leftover[]> {
  const names = (await readdir(home).catch(() => [])).sort()
  return Promise.all(
    names.map(async (name) => ({ path: `~/${name}`, bytes: await diskUse([join(home, name)]) })),
  )
}
