import { chmod, lstat, rename } from 'node:fs/promises'

const ownerMayWrite = 0o300

/** Opens a folder that its owner has closed to himself for as long as something is done to it, by name `after` that. */
export async function whileOpen<T>(folder: string, act: () => Promise<T>, after = folder): Promise<T> {
  const info = await lstat(folder)
  const mode = info.mode & 0o7777
  if (!info.isDirectory() || (mode & ownerMayWrite) === ownerMayWrite) return act()
  await chmod(folder, mode | ownerMayWrite)
  let now = folder
  try {
    const result = await act()
    now = after
    return result
  } finally {
    await chmod(now, mode)
  }
}

/** To move a folder from one to another, its own entry for the one above is written. */
export const moveTree = (from: string, to: string): Promise<void> =>
  whileOpen(from, () => rename(from, to), to)
