import type { Dirent, Stats } from 'node:fs'
import { lstat, open, readdir, readlink } from 'node:fs/promises'
import { isCutByUs, readFrozenRefs } from '../../base/frozenRefs.ts'
import { opaqueFolders } from '../../base/opaqueFolders.ts'
import type { Workspace } from '../../base/workspace.ts'

/**
 * Whether a workspace holds anything that is not in the user's files by now: a file with other bytes, a
 * removal that did not land, something under `.git`, something that cannot be looked at. Costs what the agent
 * wrote; of a copy, what the folder holds.
 */
export async function holdsMore(workspace: Workspace): Promise<boolean> {
  for (const { path, mount } of workspace.roots) {
    const isCopy = mount.kind === 'bind'
    if (isCopy && mount.source === path) continue
    const layer = isCopy ? mount.source : mount.upper
    const frozen = await readFrozenRefs(mount)
    const nameOf = (at: Buffer) => at.toString('latin1', Buffer.byteLength(layer) + 1)
    const isOurs = async (at: Buffer) => (await frozen?.isUntouched(nameOf(at))) === true
    const opaque = isCopy ? new Set<string>() : await replacedFolders(layer, frozen !== null)
    if (opaque === null) return true
    const isReplaced = (at: Buffer) => opaque.has(nameOf(at))
    const look = { isCopy, isOurs, isReplaced }
    if (await differs(Buffer.from(layer), Buffer.from(path), look, isCopy)) return true
  }
  return false
}

type Look = {
  readonly isCopy: boolean
  readonly isOurs: (layer: Buffer) => Promise<boolean>
  /** The folder shows nothing of the original: what it lacks of that was removed. */
  readonly isReplaced: (layer: Buffer) => boolean
}

async function differs(layer: Buffer, real: Buffer, look: Look, isAbove: boolean): Promise<boolean> {
  const kept = await list(layer)
  // What cannot be looked into may hold anything.
  if (kept === null) return true
  const isWhole = isAbove || look.isReplaced(layer)
  if (isWhole) {
    const names = new Set(kept.map((entry) => entry.name.toString('latin1')))
    const there = await list(real)
    if (there === null || there.some((entry) => !names.has(entry.name.toString('latin1')))) return true
  }
  for (const { name } of kept) {
    if (await entryDiffers(below(layer, name), below(real, name), look, isWhole)) return true
  }
  return false
}

async function entryDiffers(layer: Buffer, real: Buffer, look: Look, isWhole: boolean): Promise<boolean> {
  const mine = await lstat(layer)
  if (mine.isFile() && (await look.isOurs(layer))) return false
  const theirs = await lstat(real).catch((error: NodeJS.ErrnoException) =>
    error.code === 'ENOENT' || error.code === 'ENOTDIR' ? null : undefined,
  )
  if (theirs === undefined) return true
  if (!look.isCopy && isWhiteout(mine)) return theirs !== null
  if (theirs === null) return true
  if (mine.isDirectory()) return !theirs.isDirectory() || differs(layer, real, look, isWhole)
  if (mine.isSymbolicLink()) return !theirs.isSymbolicLink() || !(await sameTarget(layer, real))
  if (!mine.isFile() || !theirs.isFile()) return true
  if (mine.size !== theirs.size || (mine.mode & 0o777) !== (theirs.mode & 0o777)) return true
  return !(await sameBytes(layer, real))
}

const plainCopy: Look = { isCopy: true, isOurs: async () => false, isReplaced: () => false }

/**
 * Whether anybody worked in a copy since it was made, by the clock of its filesystem. Costs a look at each of its
 * entries; only what was touched is read.
 */
export async function isWorkedOn(
  copy: Buffer,
  real: Buffer,
  madeMs: number,
  isBookkeeping: (path: string) => boolean,
  at = '',
): Promise<boolean> {
  const kept = await list(copy)
  if (kept === null) return true
  if ((await lstat(copy)).ctimeMs >= madeMs && (await folderDiffers(copy, kept, real))) return true
  for (const entry of kept) {
    const path = `${at}/${entry.name.toString('latin1')}`
    const [mine, theirs] = [below(copy, entry.name), below(real, entry.name)]
    if (entry.isDirectory()) {
      if (await isWorkedOn(mine, theirs, madeMs, isBookkeeping, path)) return true
    } else if ((await lstat(mine)).ctimeMs >= madeMs && !isBookkeeping(path)) {
      if (await entryDiffers(mine, theirs, plainCopy, true)) return true
    }
  }
  return false
}

/** Whether a folder itself is not as the real one: its mode, or something that is there and not here. */
async function folderDiffers(copy: Buffer, kept: readonly Dirent<Buffer>[], real: Buffer): Promise<boolean> {
  const there = await list(real)
  if (there === null) return true
  const names = new Set(kept.map((entry) => entry.name.toString('latin1')))
  if (there.some((entry) => !names.has(entry.name.toString('latin1')))) return true
  const [mine, theirs] = await Promise.all([lstat(copy), lstat(real)])
  return (mine.mode & 0o777) !== (theirs.mode & 0o777)
}

/** Null where nobody can tell. */
async function replacedFolders(upper: string, isFrozen: boolean): Promise<ReadonlySet<string> | null> {
  const all = await opaqueFolders(upper).catch(() => null)
  return all === null || !isFrozen ? all : new Set([...all].filter((path) => !isCutByUs(path)))
}

/** Whether a folder of the layer stands in the place of one that held something. */
export async function replacesAny(upper: string, lower: string, isFrozen: boolean): Promise<boolean> {
  const opaque = await replacedFolders(upper, isFrozen)
  if (opaque === null) return true
  for (const path of opaque) {
    const there = await list(below(Buffer.from(lower), Buffer.from(path, 'latin1')))
    if (there !== null && there.length > 0) return true
  }
  return false
}

/** How an overlay keeps that something was removed. */
const isWhiteout = (info: Stats): boolean => info.isCharacterDevice() && info.rdev === 0

async function list(folder: Buffer): Promise<Dirent<Buffer>[] | null> {
  return readdir(folder, { withFileTypes: true, encoding: 'buffer' }).catch(() => null)
}

const below = (folder: Buffer, name: Buffer): Buffer => Buffer.concat([folder, Buffer.from('/'), name])

async function sameTarget(one: Buffer, other: Buffer): Promise<boolean> {
  const [mine, theirs] = await Promise.all([one, other].map((path) => readlink(path, { encoding: 'buffer' })))
  return mine !== undefined && theirs !== undefined && mine.equals(theirs)
}

async function sameBytes(one: Buffer, other: Buffer): Promise<boolean> {
  try {
    await using mine = await open(one)
    await using theirs = await open(other)
    const size = 256 * 1024
    const [left, right] = [Buffer.alloc(size), Buffer.alloc(size)]
    for (let at = 0; ;) {
      const [first, second] = await Promise.all([
        mine.read(left, 0, size, at),
        theirs.read(right, 0, size, at),
      ])
      if (first.bytesRead !== second.bytesRead) return false
      if (first.bytesRead === 0) return true
      if (!left.subarray(0, first.bytesRead).equals(right.subarray(0, first.bytesRead))) return false
      at += first.bytesRead
    }
  } catch {
    return false
  }
}
