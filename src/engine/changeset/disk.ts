import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import {
  chmod,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  readlink,
  rename,
  rmdir,
  symlink,
  unlink,
  type FileHandle,
} from 'node:fs/promises'
import { platform } from 'node:os'
import { dirname } from 'node:path'
import { run } from '../base/process.ts'

// O_PATH, which Node does not name: a reference to the folder itself, without the right to read it.
const pathFlags = 0o10000000 | constants.O_DIRECTORY | constants.O_NOFOLLOW

type PathBytes = Buffer | string

/**
 * Every file-system operation of capture, apply and undo goes through here, so that the fault suite can stop,
 * fail or kill at each of them. Nothing else: no policy, no retries.
 */
const operations = {
  open: (path: PathBytes, flags: number, mode?: number): Promise<FileHandle> => open(path, flags, mode),
  close: (handle: FileHandle): Promise<void> => handle.close(),
  read: async (handle: FileHandle, buffer: Uint8Array): Promise<number> =>
    (await handle.read(buffer, 0, buffer.length, null)).bytesRead,
  write: async (handle: FileHandle, data: Uint8Array, position: number | null): Promise<void> => {
    let done = 0
    while (done < data.length) {
      const at = position === null ? null : position + done
      done += (await handle.write(data, done, data.length - done, at)).bytesWritten
    }
  },
  truncate: (handle: FileHandle, size: number): Promise<void> => handle.truncate(size),
  sync: (handle: FileHandle): Promise<void> => handle.sync(),
  chmod: (handle: FileHandle, mode: number): Promise<void> => handle.chmod(mode),
  chown: (handle: FileHandle, uid: number, gid: number): Promise<void> => handle.chown(uid, gid),
  /** Also works on a folder we may not even open; never follows a link. */
  chmodFolder: async (path: PathBytes, mode: number): Promise<void> => {
    if (platform() !== 'linux') return chmod(path, mode)
    const handle = await open(path, pathFlags)
    try {
      await chmod(`/proc/self/fd/${handle.fd}`, mode)
    } finally {
      await handle.close()
    }
  },
  stat: (handle: FileHandle) => handle.stat({ bigint: true }),
  lstat: (path: PathBytes) => lstat(path, { bigint: true }),
  list: (path: PathBytes): Promise<Buffer[]> => readdir(path, { encoding: 'buffer' }),
  readlink: (path: PathBytes): Promise<Buffer> => readlink(path, { encoding: 'buffer' }),
  mkdir: async (path: PathBytes, mode: number): Promise<void> => {
    await mkdir(path, { mode })
  },
  rename: (from: PathBytes, to: PathBytes): Promise<void> => rename(from, to),
  link: (existing: PathBytes, path: PathBytes): Promise<void> => link(existing, path),
  symlink: (target: PathBytes, path: PathBytes): Promise<void> => symlink(target, path),
  unlink: (path: PathBytes): Promise<void> => unlink(path),
  rmdir: (path: PathBytes): Promise<void> => rmdir(path),
  /** Everything written to a file system, in one go instead of file by file; false where there is no such call. */
  flush: async (path: string): Promise<boolean> =>
    platform() === 'linux' && (await run('sync', ['-f', path])).code === 0,
}

export type Disk = typeof operations
export const realDisk: Disk = operations
export type DiskStat = Awaited<ReturnType<Disk['lstat']>>

/** A disk that asks `before` ahead of each operation; what that throws is what the operation throws. */
export function watchedDisk(
  before: (operation: string, count: number) => void | Promise<void>,
  disk: Disk = operations,
): Disk {
  let count = 0
  const watched = Object.entries(disk).map(([name, operation]) => [
    name,
    async (...args: unknown[]) => {
      count += 1
      try {
        await before(name, count)
      } catch (error) {
        // A descriptor is not the disk's: a dead process would have lost it too.
        if (name === 'close') await (args[0] as FileHandle).close()
        throw error
      }
      return (operation as (...args: unknown[]) => Promise<unknown>)(...args)
    },
  ])
  return Object.fromEntries(watched) as Disk
}

export const readFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
export const folderFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
export const createFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

export function errorCode(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
}
/** The value, or null where nothing (or no folder on the way) is there. */
export async function unlessMissing<T>(attempt: Promise<T>): Promise<T | null> {
  try {
    return await attempt
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ELOOP'].includes(errorCode(error))) return null
    throw error
  }
}

/** Replaces a file as a whole: a reader finds the old or the new one; if `durable`, also after a power loss. */
export async function replaceFile(disk: Disk, path: string, text: string, durable = true): Promise<void> {
  const temporary = `${path}.${randomBytes(4).toString('hex')}.tmp`
  const handle = await disk.open(temporary, createFlags, 0o600)
  try {
    await disk.write(handle, Buffer.from(text), null)
    if (durable) await disk.sync(handle)
  } finally {
    await disk.close(handle)
  }
  await disk.rename(temporary, path)
  if (!durable) return
  const folder = await disk.open(dirname(path), folderFlags)
  try {
    await disk.sync(folder)
  } finally {
    await disk.close(folder)
  }
}
