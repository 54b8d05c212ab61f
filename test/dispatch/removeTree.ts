import { chmod, lstat, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** Removes a tree in which folders may be unreadable, as an overlay's work folder is. */
export async function removeTree(path: string): Promise<void> {
  const open = async (folder: string): Promise<void> => {
    await chmod(folder, 0o700)
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      if (entry.isDirectory()) await open(join(folder, entry.name))
    }
  }
  if (await lstat(path).catch(() => null)) await open(path).catch(() => {})
  // A supervisor that is still ending may write once more.
  await rm(path, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 })
}
