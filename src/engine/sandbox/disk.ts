import { spawn } from 'node:child_process'
import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { minimalEnv } from '../base/process.ts'
import { onLines } from './lines.ts'
import type { SandboxPlan } from './plan.ts'

/** A listing of folders that are closed to us, by who can open them: `find` in a user namespace of ours. */
export type ClosedLister = readonly string[]

// Blocks, not length: a sparse file of 1 TB takes nothing.
const blockBytes = 512
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

async function tallyListed(
  tally: Tally,
  folders: readonly string[],
  [program = '', ...args]: ClosedLister,
  most: number,
): Promise<void> {
  const wanted = [...folders, '-mindepth', '1', '-printf', String.raw`%D:%i %n %y %b\n`]
  const child = spawn(program, [...args, ...wanted], { env: minimalEnv, stdio: ['ignore', 'pipe', 'ignore'] })
  onLines(child.stdout, (line) => {
    const [key = '', links, kind, blocks] = line.split(' ')
    // A folder's links are its folders.
    if (blocks !== undefined) tally.add(key, kind === 'd' ? 1 : Number(links), Number(blocks))
    if (tally.bytes > most) child.kill('SIGKILL')
  })
  await new Promise<void>((resolve) => child.on('error', () => resolve()).on('close', () => resolve()))
}

/**
 * Bytes on disk below folders; what vanishes while we look counts as gone. Where they are more than `most`, what was
 * counted until then. An agent may close a folder to us and go on writing in it: those are listed by `lister`, where
 * there is one.
 */
export async function diskUse(
  folders: readonly string[],
  lister: ClosedLister = [],
  most = Number.POSITIVE_INFINITY,
): Promise<number> {
  const tally = new Tally()
  const closed: string[] = []
  const pending = [...new Set(folders)]
  let looked = 0
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const current = next
    const entries = await readdir(current, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'EACCES') closed.push(current)
      return []
    })
    looked += entries.length
    if (looked > manyFiles && lister.length > 0) {
      const all = new Tally()
      await tallyListed(all, [...new Set(folders)], lister, most)
      return all.bytes
    }
    const found = await Promise.all(
      entries.map(async (entry) => {
        const path = join(current, entry.name)
        const info = await lstat(path).catch((error: NodeJS.ErrnoException) => error)
        return { entry, path, info }
      }),
    )
    // It can be listed but not entered, or the name is no UTF-8, under which we find nothing.
    const isClosed = found.some(
      ({ entry, info }) => info instanceof Error && (info.code === 'EACCES' || entry.name.includes('\uFFFD')),
    )
    if (isClosed && lister.length > 0) closed.push(current)
    else
      for (const { entry, path, info } of found) {
        if (entry.isDirectory()) pending.push(path)
        if (info instanceof Error) continue
        tally.add(`${info.dev}:${info.ino}`, info.isDirectory() ? 1 : info.nlink, info.blocks)
      }
    if (tally.bytes > most) return tally.bytes
  }
  if (closed.length > 0 && lister.length > 0) await tallyListed(tally, closed, lister, most)
  return tally.bytes
}
