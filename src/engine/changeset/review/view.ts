import { createHash } from 'node:crypto'
import type { ChangeKind } from '../../../shared/changeset.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import {
  givenPath,
  givenText,
  isBelow,
  parentOf,
  toBytes,
  toText,
  type BytePath,
  type GivenPlace,
} from '../bytePath.ts'
import { sameContent, type Entry, type Manifest, type Side } from '../manifest.ts'
import { largeFile } from '../objects/objects.ts'
import { readPatch, type PatchFile, type PatchHunk } from './patch.ts'

/** One file as a reviewer sees it: an entry, the entry it was renamed from, and its hunks. */
export type FileView = {
  readonly entry: Entry
  readonly from: Entry | null
  /** In percent; of a file that was not renamed 0. */
  readonly similarity: number
  /** Another changed file that had exactly this content before. Told, and no more: nothing comes of it. */
  readonly copyOf: BytePath | null
  readonly change: ChangeKind
  /** Of the file under its old name too: what is renamed is taken away from there. */
  readonly protected: boolean
  readonly ignored: boolean
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
    similarity: from === null ? 0 : (patch?.similarity ?? 0),
    copyOf: from === null && entry.base === null ? (originals.get(contentKey(entry.result)) ?? null) : null,
    change: changeOf(entry, from),
    protected: entry.protected || from?.protected === true,
    ignored: entry.ignored || from?.ignored === true,
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
export function signOf(side: Side | null): string {
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

export function sizeOf(side: Side | null): number | null {
  return side !== null && 'size' in side ? side.size : null
}

/** The files a caller means: one by its path, or all in a folder. The root may be its path or its name, or told with the path. */
export function findFiles(
  view: View,
  given: GivenPlace,
): { readonly exact: readonly FileView[]; readonly inside: readonly FileView[] } {
  const { path_b64 } = given
  const { roots } = view.manifest
  const told = (given.path ?? '')
    .replace(/^(\.\/)+/, '')
    .replace(/\/+$/, '')
    .replace(/^\.$/, '')
  const above = roots.find((each) => told === each.path || told.startsWith(`${each.path}/`))
  const text = above === undefined ? told : told.slice(above.path.length + 1)
  const path = givenPath({ path: text, path_b64 })
  const meant = roots.filter(
    (each) => given.root === undefined || each.path === given.root || each.name === given.root,
  )
  const places = new Set(
    meant.filter((each) => above === undefined || each === above).map((each) => each.path),
  )
  const own = view.files.filter(({ entry }) => places.has(entry.root))
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

export function noSuchPath({ manifest }: View, given: GivenPlace): OrangeryError {
  const roots = manifest.roots.map(({ path }) => path).join(' or ')
  return new OrangeryError('changeset.no_such_path', `no change at ${givenText(given)} in this changeset`, {
    kind: 'not_found',
    hint: `Paths begin at the root: ${roots}. \`orangery changeset show\` lists what changed.`,
  })
}
