import { readFile } from 'node:fs/promises'
import { uptime } from 'node:os'
import { join } from 'node:path'
import { ensureFolder, replaceFile, type Disk } from '../disk.ts'
import type { Side } from '../manifest.ts'

/** What the agent started from, path by path, recorded the first time a path shows up and kept from then on. */
export type Base = { readonly side: Side | null; readonly certain: boolean }
export type Bases = {
  readonly recorded: Map<string, Base>
  /** What was read already, by the identity of the file it was read from. */
  readonly seen: Map<string, { readonly identity: string; readonly side: Side }>
  /** The host's clock was set meanwhile: file times do not tell any more what changed after the start. */
  readonly clockStepped: boolean
  /** When the machine was booted, by the clock of the first capture. */
  readonly bootMs: number
  /** The last look that saw all the agent had left: when it began, and whether the agent had ended. */
  readonly look: { readonly ms: number; readonly final: boolean } | null
  /** Inodes of the user's folders, as they were when first looked at; null where nobody looked while the agent ran. */
  readonly folders: ReadonlyMap<string, string> | null
}
const stepMs = 2000

type Stored = {
  recorded: [string, Base][]
  seen: [string, { identity: string; side: Side }][]
  clockStepped: boolean
  bootMs?: number
  look?: Bases['look']
  folders?: [string, string][] | null
}

/** The wall clock minus the time since boot stays the same until somebody sets the clock. */
function bootTime(): number {
  return Date.now() - uptime() * 1000
}

export async function readBases(folder: string): Promise<Bases> {
  const text = await readFile(join(folder, 'bases.json'), 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw error
  })
  const bootMs = bootTime()
  if (text === null)
    return {
      recorded: new Map(),
      seen: new Map(),
      clockStepped: false,
      bootMs,
      look: null,
      folders: null,
    }
  const stored = JSON.parse(text) as Stored
  return {
    recorded: new Map(stored.recorded),
    seen: new Map(stored.seen),
    clockStepped: stored.clockStepped || Math.abs(bootMs - (stored.bootMs ?? bootMs)) > stepMs,
    bootMs: stored.bootMs ?? bootMs,
    look: stored.look ?? null,
    folders: stored.folders == null ? null : new Map(stored.folders),
  }
}

export async function writeBases(folder: string, bases: Bases, disk: Disk, durable = true): Promise<void> {
  const stored: Stored = {
    recorded: [...bases.recorded],
    seen: [...bases.seen],
    clockStepped: bases.clockStepped,
    bootMs: bases.bootMs,
    look: bases.look,
    folders: bases.folders === null ? null : [...bases.folders],
  }
  await ensureFolder(disk, folder)
  await replaceFile(disk, join(folder, 'bases.json'), JSON.stringify(stored), durable)
}
