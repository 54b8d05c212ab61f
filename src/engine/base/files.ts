import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { open, readdir, rename, rm, type FileHandle } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

/**
 * Makes a folder only we can enter, with its parents. Node's own recursive `mkdir` never ends where a parent
 * exists but refuses children with ENOENT, as /proc does.
 */
export async function ensurePrivateDir(path: string): Promise<void> {
  const failure = makeDir(path)
  if (failure?.code === 'ENOENT' && dirname(path) !== path) {
    await ensurePrivateDir(dirname(path))
    const again = makeDir(path)
    if (again !== null) throw again
  } else if (failure !== null) throw failure
}

/** Null when the folder is there afterwards, whoever made it. */
function makeDir(path: string): NodeJS.ErrnoException | null {
  try {
    // One small call: a trip to the thread pool takes ten times as long, and an agent waits for it.
    mkdirSync(path, { mode: 0o700 })
    return null
  } catch (error) {
    const facts = statSync(path, { throwIfNoEntry: false })
    return facts?.isDirectory() ? null : (error as NodeJS.ErrnoException)
  }
}

/** A folder of ours that an agent could close to us, open again: one run must not spoil the next. (escape: closed-home) */
export function reopenDir(path: string): void {
  const facts = lstatSync(path, { throwIfNoEntry: false })
  if (facts?.isDirectory() && (facts.mode & 0o700) !== 0o700) chmodSync(path, (facts.mode & 0o7777) | 0o700)
}

/**
 * A small file that an agent's start waits for, at once: trips to the thread pool take ten times as long. Null where it
 * is none: in a repository there may be a pipe, which is not waited at.
 */
export function readSmallFile(path: string, mostBytes = 65_536): string | null {
  try {
    const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      const facts = fstatSync(file)
      return facts.isFile() && facts.size <= mostBytes ? readFileSync(file, 'utf8') : null
    } finally {
      closeSync(file)
    }
  } catch {
    return null
  }
}

/** A file of somebody's, whole. A pipe in its place would be waited at for ever, and whoever waits for a file hears no signal. */
export async function readRegularFile(path: string, mostBytes = Infinity): Promise<string> {
  await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const facts = await file.stat()
  if (!facts.isFile()) throw new Error('it is no regular file')
  if (facts.size > mostBytes) throw new Error(`it is larger than ${mostBytes} bytes`)
  return await file.readFile('utf8')
}

export async function syncDir(path: string): Promise<void> {
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Has the kernel put a file's bytes on the disk. */
export async function syncFile(path: string): Promise<void> {
  const handle = await open(path, constants.O_RDONLY)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

type FileRights = { readonly uid: number; readonly gid: number; readonly mode: number }

/** On the new file, by its descriptor, before it has its name: afterwards it may be another's. */
async function takeRights(handle: FileHandle, { uid, gid, mode }: FileRights): Promise<void> {
  // Not everybody may give a file away; who is in its group may leave it to that.
  await handle.chown(uid, gid).catch(() => handle.chown(-1, gid).catch(() => {}))
  // The umask has cut it. What the mode says of a group was meant for this one.
  if ((await handle.stat()).gid === gid) await handle.chmod(mode & 0o777)
}

/**
 * Replaces a file as a whole: readers see the old bytes or the new ones, also after a power loss. Of the file
 * alone synced, a power loss may bring the old file back, never half of one; of nothing synced, an empty one.
 */
export async function writeFileAtomically(
  path: string,
  data: string | Uint8Array,
  mode = 0o600,
  synced: 'file and folder' | 'file' | 'nothing' = 'file and folder',
  replaced: FileRights | null = null,
): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString('hex')}.tmp`)
  if (synced === 'nothing') return replaceAtOnce(path, temporary, data, mode)
  const handle = await open(temporary, 'wx', mode)
  try {
    await handle.writeFile(data)
    if (replaced !== null) await takeRights(handle, replaced)
    await handle.sync()
    await handle.close()
    await rename(temporary, path)
  } catch (error) {
    await handle.close().catch(() => {})
    await rm(temporary, { force: true })
    throw error
  }
  if (synced === 'file and folder') await syncDir(dirname(path))
}

/** Nothing waits for the disk here, and an agent waits for this: trips to the thread pool take ten times as long. */
function replaceAtOnce(path: string, temporary: string, data: string | Uint8Array, mode: number): void {
  try {
    writeFileSync(temporary, data, { flag: 'wx', mode })
    renameSync(temporary, path)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
}

/** Takes away what writers that were killed on the way left in and below a folder. Only where nobody writes any more. */
export async function removeUnfinished(folder: string): Promise<void> {
  const names = await readdir(folder, { recursive: true }).catch((): string[] => [])
  const unfinished = names.filter((name) => /\.[0-9a-f]{8,12}\.tmp$/.test(basename(name)))
  await Promise.all(unfinished.map((name) => rm(join(folder, name), { force: true })))
}
