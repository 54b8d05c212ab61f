import { readdir, readFile, readlink } from 'node:fs/promises'
import { join, relative } from 'node:path'

/** Every path below a folder with what is there: a text, where a link leads, or `/` for a folder. */
export async function fileTree(folder: string): Promise<Readonly<Record<string, string>>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const lines = await Promise.all(
    entries.map(async (entry) => {
      const path = join(entry.parentPath, entry.name)
      const there = entry.isFile()
        ? await readFile(path, 'utf8')
        : entry.isSymbolicLink()
          ? `-> ${await readlink(path)}`
          : entry.isDirectory()
            ? '/'
            : 'something else'
      return [relative(folder, path), there] as const
    }),
  )
  return Object.fromEntries(lines.toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

/** The paths at which two of them differ. */
export const pathsBetween = (
  one: Readonly<Record<string, string>>,
  other: Readonly<Record<string, string>>,
): readonly string[] =>
  [...new Set([...Object.keys(one), ...Object.keys(other)])].filter((path) => one[path] !== other[path])

export const isSameTree = (
  one: Readonly<Record<string, string>>,
  other: Readonly<Record<string, string>>,
): boolean => pathsBetween(one, other).length === 0
