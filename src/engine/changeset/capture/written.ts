import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ensureFolder, replaceFile, type Disk } from '../disk.ts'
import { entryKey } from '../manifest.ts'
import type { View } from '../review/view.ts'

/** When each hunk showed up first, in milliseconds; '' stands for the file as a whole. */
export type FirstSeen = ReadonlyMap<string, number>

export function seenKey(entry: { root: string; path: string }, hunk: string): string {
  return `${entryKey(entry)}\0${hunk}`
}

export async function readFirstSeen(folder: string): Promise<FirstSeen> {
  const text = await readFile(join(folder, 'first-seen.json'), 'utf8').catch(() => '[]')
  return new Map(JSON.parse(text) as [string, number][])
}

/** Remembers new hunks with the time their file was written, and forgets those that are gone. */
export async function noteFirstSeen(
  folder: string,
  view: View,
  writtenMs: (entry: { root: string; path: string }) => number,
  disk: Disk,
): Promise<void> {
  const before = await readFirstSeen(folder)
  const now = new Map<string, number>()
  for (const file of view.files) {
    for (const hunk of ['', ...file.hunks.map((each) => each.id)]) {
      const key = seenKey(file.entry, hunk)
      now.set(key, (hunk === '' ? undefined : before.get(key)) ?? writtenMs(file.entry))
    }
  }
  await ensureFolder(disk, folder)
  await replaceFile(disk, join(folder, 'first-seen.json'), JSON.stringify([...now]), false)
}
