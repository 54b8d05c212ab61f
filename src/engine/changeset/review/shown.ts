import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import { ensureFolder, replaceFile, type Disk } from '../disk.ts'
import { entryKey } from '../manifest.ts'
import { signOf, type FileView, type View } from './view.ts'

/** What a decision says of the version it is about. */
export type SeenVersion = {
  /** The file, as it was shown. */
  readonly anchor?: string | undefined
  /** The whole changeset, as it was shown. */
  readonly revision?: string | undefined
}
/** The anchor of the version of a file that the decider has seen; null where nobody knows. */
export type Seen = (file: FileView) => string | null

/** A file of which somebody was given text: all of its change, or what became of it since an earlier version. */
export type ShownFile = { readonly file: FileView; readonly since: FileView | null }
export type Shown = {
  readonly files: readonly ShownFile[]
  readonly revision: string
  /** Whether it was everything that changed, and since which revision; null for all of it. */
  readonly whole: { readonly since: string | null } | null
}

/** What is kept of one person. */
type Reader = {
  /** Each file's anchor and version when its text was given last. */
  readonly files: Map<string, string>
  /** The last revision of which everything was given. */
  read?: string
  /** What that was when something was decided last. */
  reviewed?: string
}
type Stored = [string, [string, string][], { read?: string; reviewed?: string }?]

async function readReaders(folder: string): Promise<Map<string, Reader>> {
  const text = await readFile(join(folder, 'shown.json'), 'utf8').catch(() => '[]')
  return new Map(
    (JSON.parse(text) as Stored[]).map(([by, files, rest]) => [by, { files: new Map(files), ...rest }]),
  )
}

async function change(folder: string, by: string, disk: Disk, alter: (reader: Reader) => void) {
  const readers = await readReaders(folder)
  const reader = readers.get(by) ?? { files: new Map<string, string>() }
  alter(reader)
  readers.set(by, reader)
  const stored = [...readers].map(([name, { files, ...rest }]): Stored => [name, [...files], rest])
  await ensureFolder(disk, folder)
  await replaceFile(disk, join(folder, 'shown.json'), JSON.stringify(stored), false)
}

/** What would be there after it landed: a part of it that has landed since makes no other version of it. */
function versionOf({ entry, from }: FileView): string {
  const parts = [entry.path, signOf(entry.result), from?.path]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32)
}
const noteOf = (file: FileView) => `${file.anchor} ${versionOf(file)}`
function isNoteOf(note: string | undefined, file: FileView): boolean {
  const [anchor, version] = note?.split(' ') ?? []
  return anchor === file.anchor || version === versionOf(file)
}

/** Remembers what somebody was shown, also of what nobody writes just now: it may be sent back. */
export async function noteShown(folder: string, by: string, shown: Shown, disk: Disk): Promise<void> {
  const { files, revision, whole } = shown
  await change(folder, by, disk, (reader) => {
    for (const { file, since } of files) {
      // What was added to something that he has not seen shows him only half of it.
      if (since !== null && !isNoteOf(reader.files.get(entryKey(since.entry)), since)) continue
      reader.files.set(entryKey(file.entry), noteOf(file))
    }
    if (whole !== null && (whole.since === null || whole.since === reader.read)) reader.read = revision
  })
}

/** What somebody decides tells how far he has read, which need not be the newest. */
export async function noteReviewed(
  folder: string,
  by: string,
  { revision }: SeenVersion,
  disk: Disk,
): Promise<void> {
  const reviewed = revision ?? (await readReaders(folder)).get(by)?.read
  if (reviewed !== undefined) await change(folder, by, disk, (reader) => void (reader.reviewed = reviewed))
}
export async function reviewedBy(folder: string, by: string): Promise<string | null> {
  return (await readReaders(folder)).get(by)?.reviewed ?? null
}
/** Which revisions somebody may still ask to be shown the difference to. */
export async function revisionsShown(folder: string): Promise<readonly string[]> {
  return [...(await readReaders(folder)).values()].flatMap(({ read, reviewed }) => [
    ...(read === undefined ? [] : [read]),
    ...(reviewed === undefined ? [] : [reviewed]),
  ])
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
  const own = (await readReaders(folder)).get(by)
  // Whoever has read everything has not seen what came after it.
  const read = own?.read === undefined ? null : await viewAt(own.read).catch(() => ({ files: [] }))
  const atRead =
    read === null ? null : new Map(read.files.map((file) => [entryKey(file.entry), noteOf(file)]))
  return (file) => {
    const note = own?.files.get(entryKey(file.entry))
    if (note === undefined && state === 'active') return null
    if (note === undefined && atRead === null) return file.anchor
    const last = note ?? atRead?.get(entryKey(file.entry)) ?? ''
    return isNoteOf(last, file) ? file.anchor : (last.split(' ')[0] ?? '')
  }
}
