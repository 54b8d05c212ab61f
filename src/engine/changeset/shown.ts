import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ChangesetRecord } from '../base/changesetRecords.ts'
import { ensureFolder, replaceFile, type Disk } from './disk.ts'
import { entryKey } from './manifest.ts'
import type { FileView, View } from './view.ts'

/** What a decision says of the version it is about. */
export type SeenVersion = {
  /** The file, as it was shown. */
  readonly anchor?: string | undefined
  /** The whole changeset, as it was shown. */
  readonly revision?: string | undefined
}
/** The anchor of the version of a file that the decider has seen; null where nobody knows. */
export type Seen = (file: FileView) => string | null

type Shown = Map<string, Map<string, string>>

async function readShown(folder: string): Promise<Shown> {
  const text = await readFile(join(folder, 'shown.json'), 'utf8').catch(() => '[]')
  const stored = JSON.parse(text) as [string, [string, string][]][]
  return new Map(stored.map(([by, files]) => [by, new Map(files)]))
}

/**
 * Remembers what somebody was shown while the agent could still write it; once it has ended, only for whom
 * something else is remembered.
 */
export async function noteShown(
  folder: string,
  { state }: ChangesetRecord,
  by: string,
  files: readonly FileView[],
  disk: Disk,
): Promise<void> {
  const shown = await readShown(folder)
  if (state !== 'active' && !shown.has(by)) return
  const own = shown.get(by) ?? new Map<string, string>()
  for (const { entry, anchor } of files) own.set(entryKey(entry), anchor)
  shown.set(by, own)
  const stored = [...shown].map(([name, seen]) => [name, [...seen]])
  await ensureFolder(disk, folder)
  await replaceFile(disk, join(folder, 'shown.json'), JSON.stringify(stored), false)
}

/** What a decision names; else what its maker was last shown; else, if nothing can change any more, what is there. */
export async function seenBy(
  folder: string,
  { state }: ChangesetRecord,
  by: string,
  named: SeenVersion,
  viewAt: (revision: string) => Promise<View>,
): Promise<Seen> {
  const { anchor, revision } = named
  if (anchor !== undefined) return () => anchor
  if (revision !== undefined) {
    const { files } = await viewAt(revision)
    const anchors = new Map(files.map((file) => [entryKey(file.entry), file.anchor]))
    return ({ entry }) => anchors.get(entryKey(entry)) ?? ''
  }
  const own = (await readShown(folder)).get(by)
  return (file) => own?.get(entryKey(file.entry)) ?? (state === 'active' ? null : file.anchor)
}
