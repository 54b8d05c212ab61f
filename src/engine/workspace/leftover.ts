import type { Dirent, Stats } from 'node:fs'
import { lstat, open, readdir, readlink } from 'node:fs/promises'
import { readFrozenRefs } from '../base/frozenRefs.ts'
import type { Workspace } from '../base/workspace.ts'

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
    const isOurs = async (at: Buffer) =>
      (await frozen?.isUntouched(at.toString('latin1', layer.length + 1))) === true
    if (await differs(Buffer.from(layer), Buffer.from(path), isCopy, isOurs)) return true
  }
  return false
}

type IsOurs = (layer: Buffer) => Promise<boolean>

async function differs(layer: Buffer, real: Buffer, isCopy: boolean, isOurs: IsOurs): Promise<boolean> {
  const kept = await list(layer)
  // What cannot be looked into may hold anything.
  if (kept === null) return true
  if (isCopy) {
    const names = new Set(kept.map((entry) => entry.name.toString('latin1')))
    const there = await list(real)
    if (there === null || there.some((entry) => !names.has(entry.name.toString('latin1')))) return true
  }
  for (const { name } of kept) {
    if (await entryDiffers(below(layer, name), below(real, name), isCopy, isOurs)) return true
  }
  return false
}

async function entryDiffers(layer: Buffer, real: Buffer, isCopy: boolean, isOurs: IsOurs): Promise<boolean> {
  const mine = await lstat(layer)
  if (mine.isFile() && (await isOurs(layer))) return false
  const theirs = await lstat(real).catch((error: NodeJS.ErrnoException) =>
    error.code === 'ENOENT' || error.code === 'ENOTDIR' ? null : undefined,
  )
  if (theirs === undefined) return true
  if (!isCopy && isWhiteout(mine)) return theirs !== null
  if (theirs === null) return true
  if (mine.isDirectory()) return !theirs.isDirectory() || differs(layer, real, isCopy, isOurs)
  if (mine.isSymbolicLink()) return !theirs.isSymbolicLink() || !(await sameTarget(layer, real))
  if (!mine.isFile() || !theirs.isFile()) return true
  if (mine.size !== theirs.size || (mine.mode & 0o777) !== (theirs.mode & 0o777)) return true
  return !(await sameBytes(layer, real))
}

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
      if (await entryDiffers(mine, theirs, true, async () => false)) return true
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
