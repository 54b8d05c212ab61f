import { createHash } from 'node:crypto'
import type { ChangedFile, ChangeKind, Decision, Provenance, ReviewComment } from '../../shared/changeset.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { DecisionRecord } from '../base/changesetRecords.ts'
import {
  givenPath,
  isBelow,
  namedPath,
  parentOf,
  toBytes,
  toText,
  type BytePath,
  type GivenPlace,
} from './bytePath.ts'
import { entryKey, sameContent, type Entry, type Manifest, type Side } from './manifest.ts'
import { largeFile } from './objects.ts'
import { readPatch, type PatchFile, type PatchHunk } from './patch.ts'

/** One file as a reviewer sees it: an entry, the entry it was renamed from, and its hunks. */
export type FileView = {
  readonly entry: Entry
  readonly from: Entry | null
  /** Another changed file that had exactly this content before. Told, and no more: nothing comes of it. */
  readonly copyOf: BytePath | null
  readonly change: ChangeKind
  readonly binary: boolean
  readonly hunks: readonly PatchHunk[]
  /** Names everything this change would do to the file. */
  readonly anchor: string
}
export type View = {
  readonly revision: string
  readonly manifest: Manifest
  readonly files: readonly FileView[]
  /** Folders that come or go with what is in them; nobody decides on them. */
  readonly implied: readonly Entry[]
  readonly insertions: number
  readonly deletions: number
}

/** Text beyond this much in one changeset is shown as binary, largest files first. */
const textBudget = 96 * 1024 * 1024

export async function readView(gitDir: string, revision: string, manifest: Manifest): Promise<View> {
  const largeFileBytes = largestWithin(manifest.entries, textBudget)
  const files: FileView[] = []
  const implied: Entry[] = []
  for (const root of manifest.roots) {
    const patch = await readPatch(gitDir, root.base_tree, root.result_tree, { largeFileBytes })
    const byPath = new Map(patch.map((file) => [file.path, file]))
    const own = manifest.entries.filter((entry) => entry.root === root.path)
    const byEntryPath = new Map(own.map((entry) => [entry.path, entry]))
    const renamedFrom = new Set(patch.flatMap((file) => (file.from === null ? [] : [file.from])))
    const parents = new Set<BytePath>()
    for (const { path } of own) {
      for (let at = parentOf(path); at !== '' && !parents.has(at); at = parentOf(at)) parents.add(at)
    }
    const originals = originalsOf(own)
    for (const entry of own) {
      if (isImplied(entry, parents)) implied.push(entry)
      else if (!renamedFrom.has(entry.path) || byPath.has(entry.path)) {
        files.push(fileView(entry, byPath.get(entry.path), byEntryPath, originals))
      }
    }
  }
  const sum = (of: (hunk: PatchHunk) => number) =>
    files.reduce((total, file) => total + file.hunks.reduce((all, hunk) => all + of(hunk), 0), 0)
  return {
    revision,
    manifest,
    files,
    implied,
    insertions: sum((hunk) => hunk.insertions),
    deletions: sum((hunk) => hunk.deletions),
  }
}

function isImplied(entry: Entry, parents: ReadonlySet<BytePath>): boolean {
  const isFolder =
    (entry.base?.kind ?? 'directory') === 'directory' && (entry.result?.kind ?? 'directory') === 'directory'
  return isFolder && (entry.base === null || entry.result === null) && parents.has(entry.path)
}

function fileView(
  entry: Entry,
  patch: PatchFile | undefined,
  byPath: ReadonlyMap<BytePath, Entry>,
  originals: ReadonlyMap<string, BytePath>,
): FileView {
  const from = patch?.from == null ? null : (byPath.get(patch.from) ?? null)
  return {
    entry,
    from,
    copyOf: from === null && entry.base === null ? (originals.get(contentKey(entry.result)) ?? null) : null,
    change: changeOf(entry, from),
    binary: patch?.binary ?? false,
    hunks: patch?.hunks ?? [],
    anchor: anchorOf(entry, from),
  }
}

/** Where each content lay before, of what changed. */
function originalsOf(entries: readonly Entry[]): ReadonlyMap<string, BytePath> {
  const found = new Map<string, BytePath>()
  for (const { base, path } of entries) {
    const key = contentKey(base)
    if (key !== '' && !found.has(key)) found.set(key, path)
  }
  return found
}
/** Empty files are all alike and no copies of each other. */
function contentKey(side: Side | null): string {
  return side?.kind === 'file' && side.size > 0 ? side.sha256 : ''
}

function changeOf({ base, result }: Entry, from: Entry | null): ChangeKind {
  if (from !== null) return 'renamed'
  if (base === null) return 'added'
  if (result === null) return 'deleted'
  if (base.kind !== result.kind) return 'type'
  return sameContent(base, result) ? 'mode' : 'modified'
}

export function anchorOf(entry: Entry, from: Entry | null): string {
  const parts = [entry.path, signOf(entry.base), signOf(entry.result), from?.path, signOf(from?.base ?? null)]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32)
}
function signOf(side: Side | null): string {
  if (side === null) return '-'
  if (side.kind === 'special') return `special ${side.what}`
  return `${side.kind} ${'mode' in side ? side.mode : ''} ${'sha256' in side ? side.sha256 : ''}`
}

/** A size such that all files below it together stay within the budget. */
export function largestWithin(entries: readonly Entry[], budget: number): number {
  const sizes = entries
    .map(({ base, result }) => Math.max(sizeOf(base) ?? 0, sizeOf(result) ?? 0))
    .toSorted((a, b) => a - b)
  let total = 0
  for (const size of sizes) {
    total += size * 2
    // What is larger than git's threshold is not read: this one must be.
    if (total > budget) return Math.min(Math.max(size - 1, 1), largeFile)
  }
  return largeFile
}

/** A decision counts for the content it was made on; whatever changed since is open again. */
export class Decisions {
  readonly #byPlace = new Map<string, DecisionRecord>()
  readonly #byPath: ReadonlyMap<string, DecisionRecord[]>
  readonly #landed: ReadonlySet<string>

  /** `landed`: views of what was applied; an approved hunk of those is gone because it landed, not because it changed. */
  constructor(records: readonly DecisionRecord[], landed: readonly View[] = []) {
    this.#landed = new Set(
      landed.flatMap(({ files }) =>
        files.flatMap(({ entry, from, hunks }) =>
          [entry, ...(from === null ? [] : [from])].flatMap(({ root, path }) =>
            hunks.map((hunk) => placeKey(root, path, hunk.id)),
          ),
        ),
      ),
    )
    for (const record of records) this.#byPlace.set(placeKey(record.root, record.path, record.hunk), record)
    this.#byPath = Map.groupBy(records, (record) => entryKey(record))
  }
  #ofPath({ entry, from }: FileView): readonly DecisionRecord[] {
    return (
      this.#byPath.get(entryKey(entry)) ?? (from === null ? [] : (this.#byPath.get(entryKey(from)) ?? []))
    )
  }
  /** What was decided on a text holds after its file was renamed; the new name is another matter. */
  ofHunk({ entry, from }: FileView, hunk: PatchHunk): Decision {
    const here = this.#byPlace.get(placeKey(entry.root, entry.path, hunk.id))
    const before = from === null ? undefined : this.#byPlace.get(placeKey(from.root, from.path, hunk.id))
    return (here ?? before)?.verdict ?? null
  }
  /** What is not in a hunk (modes, names, bytes of binaries) is decided with the file as a whole. */
  ofWhole(file: FileView): Decision {
    const record = this.#byPlace.get(placeKey(file.entry.root, file.entry.path, null))
    return record?.anchor === file.anchor ? record.verdict : null
  }
  /**
   * Kind, mode and name are in no hunk: approved hunks speak for them only if each was approved on exactly this
   * file. An agent could otherwise make a file world-writable after its text was approved.
   */
  isShapeApproved(file: FileView, hunks: readonly PatchHunk[] = file.hunks): boolean {
    if (!changesShape(file) || this.ofWhole(file) === 'approve') return true
    return (
      hunks.length > 0 &&
      hunks.every((hunk) => {
        const record = this.#byPlace.get(placeKey(file.entry.root, file.entry.path, hunk.id))
        return record?.verdict === 'approve' && record.anchor === file.anchor
      })
    )
  }
  /** Something of it was decided that is not there any more: it has changed since. */
  isReopened(file: FileView): boolean {
    const hunks = new Set(file.hunks.map((hunk) => hunk.id))
    if (this.#ofHunks(file) === 'approve' && !this.isShapeApproved(file)) return true
    return this.#ofPath(file).some((record) =>
      record.hunk === null
        ? file.hunks.length === 0 && record.anchor !== file.anchor
        : !hunks.has(record.hunk) && !this.#hasLanded(record),
    )
  }
  #hasLanded({ root, path, hunk, verdict }: DecisionRecord): boolean {
    return verdict === 'approve' && this.#landed.has(placeKey(root, path, hunk))
  }
  /** What the file was whenever something of it was decided. */
  anchorsOf(file: FileView): ReadonlySet<string> {
    return new Set(this.#ofPath(file).map(({ anchor }) => anchor))
  }
  /** A file's decision is that of all its hunks, if they agree, and if they also speak for its shape. */
  ofFile(file: FileView): Decision {
    if (file.hunks.length === 0) return this.ofWhole(file)
    const decision = this.#ofHunks(file)
    return decision === 'approve' && !this.isShapeApproved(file) ? null : decision
  }
  #ofHunks(file: FileView): Decision {
    const [first, ...others] = file.hunks.map((hunk) => this.ofHunk(file, hunk))
    return first !== undefined && others.every((other) => other === first) ? first : null
  }
}
/** Whether the change does something that its hunks do not show. */
function changesShape({ entry: { base, result }, from }: FileView): boolean {
  if (from !== null || base === null || result === null || base.kind !== result.kind) return true
  return 'mode' in base && 'mode' in result && base.mode !== result.mode
}
function placeKey(root: string, path: string, hunk: string | null): string {
  return `${root}\0${path}\0${hunk ?? ''}`
}

/** The original that did not change, and how much of the new file is its text, in percent. */
export type Copy = { readonly path: BytePath; readonly similarity: number }
export type Copies = (entry: Entry) => Copy | null

/** What is known about a file beside its content. */
export type Notes = {
  readonly comments: (file: FileView) => ReviewComment[]
  readonly provenance: (file: FileView, hunk: string) => Provenance | null
  readonly copyOf: Copies
}

export function changedFile(file: FileView, decisions: Decisions, notes: Notes): ChangedFile {
  const { entry, from } = file
  const base = from?.base ?? entry.base
  const shown = entry.result ?? entry.base
  const copy = file.copyOf === null ? notes.copyOf(entry) : { path: file.copyOf, similarity: 100 }
  return {
    root: entry.root,
    ...namedPath(entry.path),
    ...named('from_path', from?.path ?? null),
    ...named('copy_of', copy?.path ?? null),
    ...(copy === null ? {} : { copy_similarity: copy.similarity }),
    change: file.change,
    kind: shown === null || shown.kind === 'special' ? 'file' : shown.kind,
    binary: file.binary,
    mode_before: modeText(base),
    mode_after: modeText(entry.result),
    sha256_before: hashOf(base),
    sha256_after: hashOf(entry.result),
    size_before: sizeOf(base),
    size_after: sizeOf(entry.result),
    insertions: file.hunks.reduce((total, hunk) => total + hunk.insertions, 0),
    deletions: file.hunks.reduce((total, hunk) => total + hunk.deletions, 0),
    protected: entry.protected || from?.protected === true,
    ignored: entry.ignored,
    refused: entry.refused,
    hunks: file.hunks.map((hunk) => ({
      id: hunk.id,
      header: Buffer.from(hunk.header, 'latin1').toString('utf8'),
      decision: decisions.ofHunk(file, hunk),
      insertions: hunk.insertions,
      deletions: hunk.deletions,
      provenance: notes.provenance(file, hunk.id),
    })),
    decision: decisions.ofFile(file),
    reopened: decisions.isReopened(file),
    comments: notes.comments(file),
    provenance: notes.provenance(file, ''),
  }
}

function named<Key extends string>(
  key: Key,
  path: BytePath | null,
): { [name in Key | `${Key}_b64`]?: string } {
  if (path === null) return {}
  const { path: text, path_b64 } = namedPath(path)
  return { [key]: text, ...(path_b64 === undefined ? {} : { [`${key}_b64`]: path_b64 }) } as ReturnType<
    typeof named<Key>
  >
}

const typeBits = { file: 0o100000, symlink: 0o120000, directory: 0o040000 }
function modeText(side: Side | null): string | null {
  if (side === null || side.kind === 'special') return null
  const bits = typeBits[side.kind] | ('mode' in side ? side.mode : 0)
  return bits.toString(8).padStart(6, '0')
}
function hashOf(side: Side | null): string | null {
  return side !== null && 'sha256' in side ? side.sha256 : null
}
function sizeOf(side: Side | null): number | null {
  return side !== null && 'size' in side ? side.size : null
}

/** The files a caller means: one by its path, or all in a folder. The root may be its path or its name. */
export function findFiles(
  view: View,
  given: GivenPlace,
): { readonly exact: readonly FileView[]; readonly inside: readonly FileView[] } {
  const { root, path_b64 } = given
  const text = (given.path ?? '')
    .replace(/^(\.\/)+/, '')
    .replace(/\/+$/, '')
    .replace(/^\.$/, '')
  const path = givenPath({ path: text, path_b64 })
  const names = new Map(view.manifest.roots.map((each) => [each.path, each.name]))
  const own = view.files.filter(
    ({ entry }) => root === undefined || entry.root === root || names.get(entry.root) === root,
  )
  const inside = own.filter(({ entry }) => isBelow(entry.path, path))
  const exact = own.filter(({ entry }) => entry.path === path)
  if (exact.length > 0 || path_b64 !== undefined) return { exact, inside }
  // A name that is not UTF-8 is also known by what it looks like, if only one looks so.
  const alike = own.filter(({ entry }) => toText(entry.path) === text)
  if (alike.length < 2) return { exact: alike, inside }
  const bytes = alike.map(({ entry }) => toBytes(entry.path).toString('base64'))
  throw new OrangeryError(
    'changeset.ambiguous_path',
    `${text}: ${alike.length} changed files look like this`,
    {
      kind: 'not_found',
      hint: `Their names are not UTF-8. Name one by its bytes: --path-b64 ${bytes.join(' or ')}.`,
    },
  )
}
