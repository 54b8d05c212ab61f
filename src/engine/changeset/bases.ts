import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ensurePrivateDir } from '../base/files.ts'
import { replaceFile, type Disk } from './disk.ts'
import type { Side } from './manifest.ts'

/** What the agent started from, path by path, recorded the first time a path shows up and kept from then on. */
export type Base = { readonly side: Side | null; readonly certain: boolean }
export type Bases = {
  readonly recorded: Map<string, Base>
  /** What was read already, by the identity of the file it was read from. */
  readonly seen: Map<string, { readonly identity: string; readonly side: Side }>
  readonly clockStepped: boolean
}

type Stored = {
  recorded: [string, Base][]
  seen: [string, { identity: string; side: Side }][]
  clockStepped: boolean
}

export async function readBases(folder: string): Promise<Bases> {
  const text = await readFile(join(folder, 'bases.json'), 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw error
  })
  if (text === null) return { recorded: new Map(), seen: new Map(), clockStepped: false }
  const stored = JSON.parse(text) as Stored
  return { recorded: new Map(stored.recorded), seen: new Map(stored.seen), clockStepped: stored.clockStepped }
}

export async function writeBases(folder: string, bases: Bases, disk: Disk, durable = true): Promise<void> {
  const stored: Stored = {
    recorded: [...bases.recorded],
    seen: [...bases.seen],
    clockStepped: bases.clockStepped,
  }
  await ensurePrivateDir(folder)
  await replaceFile(disk, join(folder, 'bases.json'), JSON.stringify(stored), durable)
}
