import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsync,
  ftruncateSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  read,
  readdirSync,
  readlinkSync,
  readSync,
  renameSync,
  rmdirSync,
  symlinkSync,
  unlinkSync,
  write,
  writeSync,
} from 'node:fs'
import { readdir, unlink } from 'node:fs/promises'
import { platform } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { git } from '../base/git.ts'
import { run } from '../base/process.ts'
import { Pace } from './pace.ts'

// O_PATH, which Node does not name: a reference to the folder itself, without the right to read it.
const pathFlags = 0o10000000 | constants.O_DIRECTORY | constants.O_NOFOLLOW

type PathBytes = Buffer | string
/** An open file, by its number: a `FileHandle` costs as much as the call it is for. */
export type Descriptor = number

const [readLater, writeLater, syncLater] = [promisify(read), promisify(write), promisify(fsync)]
/** Up to here a call is over sooner than a thread has heard of it. */
const smallTransfer = 64 * 1024
const quickToRemove = 1024 * 1024

const pace = new Pace()
/** A call that only touches names and attributes takes microseconds: it is made at once, in slices. */
const quickly =
  <Args extends unknown[], Result>(call: (...args: Args) => Result) =>
  async (...args: Args): Promise<Result> => {
    await pace.breathe()
    return call(...args)
  }

/**
 * Every file-system operation of capture, apply and undo on the user's files, on the workspace and on what we write
 * of them goes through here, so that the fault suite can stop, fail or kill at each of them; what git does, and what
 * a commit is put together from, does not, and is watched from outside. Nothing else: no policy, no retries.
 */
const operations = {
  open: quickly((path: PathBytes, flags: number, mode?: number): Descriptor => openSync(path, flags, mode)),
  close: quickly((file: Descriptor): void => closeSync(file)),
  read: async (file: Descriptor, buffer: Uint8Array): Promise<number> => {
    await pace.breathe()
    if (buffer.length <= smallTransfer) return readSync(file, buffer, 0, buffer.length, null)
    return (await readLater(file, buffer, 0, buffer.length, null)).bytesRead
  },
  write: async (file: Descriptor, data: Uint8Array, position: number | null): Promise<void> => {
    await pace.breathe()
    let done = 0
    while (done < data.length) {
      const at = position === null ? null : position + done
      const left = data.length - done
      done +=
        left <= smallTransfer
          ? writeSync(file, data, done, left, at)
          : (await writeLater(file, data, done, left, at)).bytesWritten
    }
  },
  truncate: quickly((file: Descriptor, size: number): void => ftruncateSync(file, size)),
  sync: (file: Descriptor): Promise<void> => syncLater(file),
  chmod: quickly((file: Descriptor, mode: number): void => fchmodSync(file, mode)),
  chown: quickly((file: Descriptor, uid: number, gid: number): void => fchownSync(file, uid, gid)),
  /** Also works on a folder we may not even open; never follows a link. */
  chmodFolder: quickly((path: PathBytes, mode: number): void => {
    if (platform() !== 'linux') return chmodSync(path, mode)
    const folder = openSync(path, pathFlags)
    try {
      chmodSync(`/proc/self/fd/${folder}`, mode)
    } finally {
      closeSync(folder)
    }
  }),
  stat: quickly((file: Descriptor) => fstatSync(file, { bigint: true })),
  lstat: quickly((path: PathBytes) => lstatSync(path, { bigint: true })),
  list: (path: PathBytes): Promise<Buffer[]> => readdir(path, { encoding: 'buffer' }),
  readlink: quickly((path: PathBytes): Buffer => readlinkSync(path, { encoding: 'buffer' })),
  mkdir: quickly((path: PathBytes, mode: number): void => void mkdirSync(path, { mode })),
  rename: quickly((from: PathBytes, to: PathBytes): void => renameSync(from, to)),
  link: quickly((existing: PathBytes, path: PathBytes): void => linkSync(existing, path)),
  symlink: quickly((target: PathBytes, path: PathBytes): void => symlinkSync(target, path)),
  /** Giving back the room of a large file takes the system a second per gigabyte. */
  unlink: async (path: PathBytes): Promise<void> => {
    await pace.breathe()
    if (lstatSync(path).size > quickToRemove) await unlink(path)
    else unlinkSync(path)
  },
  /** In whatever order: giving back room is waiting, and others can wait meanwhile. */
  unlinkAll: async (paths: readonly PathBytes[]): Promise<void> => {
    // Each one is waited for: a path by descriptor must not outlive the folder it goes through.
    const ended = await Promise.allSettled(paths.map((path) => unlink(path)))
    for (const each of ended) if (each.status === 'rejected') throw each.reason
  },
  rmdir: quickly((path: PathBytes): void => rmdirSync(path)),
  /** An empty store of contents, which is git's work. */
  makeStore: async (path: string): Promise<void> => {
    await git(['init', '--quiet', '--bare', '--template=', '--object-format=sha1', path])
  },
  /** Everything written to a file system, in one go instead of file by file; false where there is no such call. */
  flush: async (path: string): Promise<boolean> =>
    platform() === 'linux' && (await run('sync', ['-f', path])).code === 0,
}

/** The same for walks, which are thousands of calls: without a promise for each. They only read. */
const direct = {
  open: (path: PathBytes, flags: number): Descriptor => openSync(path, flags),
  close: (file: Descriptor): void => closeSync(file),
  read: (file: Descriptor, buffer: Buffer, offset: number): number =>
    readSync(file, buffer, offset, buffer.length - offset, null),
  stat: (file: Descriptor) => fstatSync(file),
  lstat: (path: PathBytes) => lstatSync(path, { bigint: true, throwIfNoEntry: false }) ?? null,
  list: (path: PathBytes): string[] => readdirSync(path, { encoding: 'latin1' }),
  readlink: (path: PathBytes): Buffer => readlinkSync(path, { encoding: 'buffer' }),
}
export type DirectCalls = typeof direct

export type Disk = typeof operations & { readonly direct: DirectCalls }
export const realDisk: Disk = { ...operations, direct }
export type DiskStat = Awaited<ReturnType<Disk['lstat']>>

/** A disk that asks `before` ahead of each operation; what that throws is what the operation throws. */
export function watchedDisk(
  before: (operation: string, count: number, args: readonly unknown[]) => void,
  disk: Disk = realDisk,
): Disk {
  let count = 0
  const ask = (name: string, args: readonly unknown[]) => {
    count += 1
    try {
      before(name, count, args)
    } catch (error) {
      // A descriptor is not the disk's: a dead process would have lost it too.
      if (name === 'close') closeSync(args[0] as Descriptor)
      throw error
    }
  }
  const { direct: quick, ...slow } = disk
  const watchedQuick = Object.entries(quick).map(([name, operation]) => [
    name,
    (...args: unknown[]) => {
      ask(name, args)
      return (operation as (...args: unknown[]) => unknown)(...args)
    },
  ])
  const watched = Object.entries(slow).map(([name, operation]) => [
    name,
    async (...args: unknown[]) => {
      ask(name, args)
      return (operation as (...args: unknown[]) => Promise<unknown>)(...args)
    },
  ])
  const made = { ...Object.fromEntries(watched), direct: Object.fromEntries(watchedQuick) } as Disk
  // One by one, so that it can stop between any two.
  const unlinkAll: Disk['unlinkAll'] = async (paths) => {
    for (const path of paths) await made.unlink(path)
  }
  return { ...made, unlinkAll }
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
  if (durable) await syncFolder(disk, dirname(path))
}

/** A folder only we can enter, with its parents; asked for first, since it is there but for once. */
export async function ensureFolder(disk: Disk, path: string): Promise<void> {
  if ((await unlessMissing(disk.lstat(path))) !== null) return
  if (dirname(path) !== path) await ensureFolder(disk, dirname(path))
  try {
    await disk.mkdir(path, 0o700)
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error
  }
}

/** A file of our own and all of its text, where there is none yet. */
export async function writeNew(disk: Disk, path: string, content: Uint8Array): Promise<void> {
  const handle = await disk.open(path, createFlags, 0o600)
  try {
    await disk.write(handle, content, null)
  } finally {
    await disk.close(handle)
  }
}

/** A folder of our own with everything in it. */
export async function removeTree(disk: Disk, path: string): Promise<void> {
  const stat = await unlessMissing(disk.lstat(path))
  if (stat === null) return
  if (!stat.isDirectory()) return void (await unlessMissing(disk.unlink(path)))
  for (const name of (await unlessMissing(disk.list(path))) ?? [])
    await removeTree(disk, join(path, name.toString()))
  await unlessMissing(disk.rmdir(path))
}

/** Names in a folder, as they are now, also after a power loss. */
export async function syncFolder(disk: Disk, path: string): Promise<void> {
  const folder = await disk.open(path, folderFlags)
  try {
    await disk.sync(folder)
  } finally {
    await disk.close(folder)
  }
}
