import { spawn } from 'node:child_process'
import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { minimalEnv } from '../../base/process.ts'
import { onLines } from '../lines.ts'
import type { SandboxPlan } from '../plan/plan.ts'

/** A listing of what is closed to us, by who can open it: `find` in a user namespace of ours. */
export type ClosedLister = readonly string[]

/** `isWhole` says that nothing was left out, be it because there was more than asked for. */
export type DiskCount = { readonly bytes: number; readonly isWhole: boolean }

// Blocks, not length: a sparse file of 1 TB takes nothing.
export const blockBytes = 512
/** An empty file takes an inode and its name: without an end of them no look at them would end. (escape: disk-many-files) */
export const leastBytes = 1024
/** From here on `find` is several times as fast as we are, its start included. */
const manyFiles = 5000

export function closedLister({ shell, tools }: Pick<SandboxPlan, 'shell' | 'tools'>): ClosedLister {
  if (tools.find === null) return []
  // To root nothing is closed, but in a namespace of its own what belongs to others would be.
  return process.getuid?.() === 0 ? [tools.find] : [shell.unshare, '-Ur', '--', tools.find]
}

/** A file of several names is counted once. */
class Tally {
  bytes = 0
  readonly #several = new Set<string>()

  add(key: string, links: number, blocks: number): void {
    if (links > 1 && this.#several.has(key)) return
    if (links > 1) this.#several.add(key)
    this.bytes += Math.max(leastBytes, blocks * blockBytes)
  }
}

/** What `find` says of something that vanished. */
const goneLine = /: (?:No such file or directory|Not a directory)$/

/** Null where it could not be started, or did not come to its end. */
async function countListed(
  folders: readonly string[],
  [program = '', ...args]: ClosedLister,
  most: number,
): Promise<DiskCount | null> {
  const tally = new Tally()
  const wanted = [...folders, '-mindepth', '1', '-printf', String.raw`%D:%i %n %y %b\n`]
  const child = spawn(program, [...args, ...wanted], { env: minimalEnv, stdio: ['ignore', 'pipe', 'pipe'] })
  // Before anything else: one that was not started may have no streams either.
  const ended = new Promise<number | null>((resolve) =>
    child.on('error', () => resolve(null)).on('close', (code) => resolve(code)),
  )
  let unread = 0
  onLines(child.stdout, (line) => {
    const [key = '', links, kind, blocks] = line.split(' ')
    // A folder's links are its folders.
    if (blocks !== undefined) tally.add(key, kind === 'd' ? 1 : Number(links), Number(blocks))
    if (tally.bytes > most) child.kill('SIGKILL')
  })
  onLines(child.stderr, (line) => {
    if (!goneLine.test(line)) unread++
  })
  const code = await ended
  if (code === null && tally.bytes <= most) return null
  return { bytes: tally.bytes, isWhole: unread === 0 }
}

const isGone = ({ code }: NodeJS.ErrnoException) => code === 'ENOENT' || code === 'ENOTDIR'

/**
 * Bytes on disk below folders; what vanishes while we look counts as gone. Where they are more than `most`, what was
 * counted until then. An agent may close a folder to us and go on writing in it, or nest folders until no path is
 * long enough: then everything is listed by `lister`, where there is one. (escape: disk-long-path)
 */
export async function countDisk(
  folders: readonly string[],
  lister: ClosedLister = [],
  most = Number.POSITIVE_INFINITY,
): Promise<DiskCount> {
  const tally = new Tally()
  const starts = [...new Set(folders)]
  const pending = [...starts]
  let canList = lister.length > 0
  const list = async () => {
    const listed = canList ? await countListed(starts, lister, most).catch(() => null) : null
    // An agent may have used up the processes its user may have: we go on by ourselves. (escape: disk-no-lister)
    canList = false
    return listed
  }
  let isWhole = true
  let looked = 0
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const current = next
    const entries = await readdir(current, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
      if (!isGone(error)) isWhole = false
      return []
    })
    looked += entries.length
    const listed = looked > manyFiles ? await list() : null
    if (listed !== null) return listed
    const found = await Promise.all(
      entries.map(async (entry) => {
        const path = join(current, entry.name)
        const info = await lstat(path).catch((error: NodeJS.ErrnoException) => error)
        return { entry, path, info }
      }),
    )
    for (const { entry, path, info } of found) {
      if (entry.isDirectory()) pending.push(path)
      if (!(info instanceof Error))
        tally.add(`${info.dev}:${info.ino}`, info.isDirectory() ? 1 : info.nlink, info.blocks)
      // A name that is no UTF-8 is one under which we find nothing.
      else if (!isGone(info) || entry.name.includes('\uFFFD')) isWhole = false
    }
    if (tally.bytes > most) return { bytes: tally.bytes, isWhole }
  }
  return (isWhole ? null : await list()) ?? { bytes: tally.bytes, isWhole }
}

export async function diskUse(folders: readonly string[], lister: ClosedLister = []): Promise<number> {
  return (await countDisk(folders, lister)).bytes
}
