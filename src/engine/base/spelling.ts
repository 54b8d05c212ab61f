import { lstat, readdir } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

/**
 * The path as the folders on the way spell it. Where case does not count, one folder answers to many paths, and no
 * comparison of paths would see that a root lies in another, is landed in, or is the place of the user's keys.
 */
export async function asSpelled(path: string): Promise<string> {
  const above = dirname(path)
  if (above === path) return path
  const [folder, name] = await Promise.all([asSpelled(above), nameIn(above, basename(path))])
  return join(folder, name)
}

async function nameIn(folder: string, name: string): Promise<string> {
  const lower = name.toLowerCase()
  const other = lower === name ? name.toUpperCase() : lower
  if (other === name) return name
  // The cheap question first: nearly everywhere the other spelling is nothing, or something else.
  const [named, twin] = await Promise.all([identity(join(folder, name)), identity(join(folder, other))])
  if (named === null || named !== twin) return name
  const names = await readdir(folder).catch((): string[] => [])
  if (names.includes(name)) return name
  const alike = names.filter((each) => folded(each) === folded(name))
  for (const each of alike) if ((await identity(join(folder, each))) === named) return each
  return name
}

const folded = (name: string): string => name.normalize('NFC').toLowerCase()

const identity = (path: string): Promise<string | null> =>
  lstat(path).then(
    ({ dev, ino }) => `${dev}:${ino}`,
    () => null,
  )
