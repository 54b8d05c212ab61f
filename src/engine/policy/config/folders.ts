import { lstat } from 'node:fs/promises'
import { dirname, join } from 'node:path'

export const isThere = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  )

export const foldersUpFrom = (folder: string): readonly string[] =>
  dirname(folder) === folder ? [folder] : [folder, ...foldersUpFrom(dirname(folder))]

/** A folder and those above it, up to the top of its repository; alone where there is none. */
export async function upToTop(start: string): Promise<readonly string[]> {
  const folders = foldersUpFrom(start)
  // All at once: an agent waits for this.
  const isTop = await Promise.all(folders.map((folder) => isThere(join(folder, '.git'))))
  return folders.slice(0, Math.max(1, isTop.indexOf(true) + 1))
}
