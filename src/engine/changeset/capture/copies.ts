import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { WorkspaceRoot } from '../../base/workspace.ts'
import { joinPath, nameOf, parentOf, type BytePath } from '../bytePath.ts'
import { replaceFile, type Disk } from '../disk.ts'
import { entryKey, type Entry } from '../manifest.ts'
import { BlobReader } from '../objects/objects.ts'
import { Pace } from '../pace.ts'
import { QuickTree } from './quickTree.ts'
import { baseOwner, sidesOf } from './scan.ts'
import type { Copies, Copy } from '../review/changedFile.ts'
import type { FileView, View } from '../review/view.ts'

/** How far is looked: what a copy is of is worth telling, and no more. The cost must not grow with the tree. */
const mostLooks = 20_000
const mostNames = 512
const levels = 3
const largestCopy = 8 * 1024 * 1024
const largestTotal = 64 * 1024 * 1024

/** For copies that were edited: how many files are read beside one, and compared in all. */
const mostNear = 8
const mostCompared = 2000
const smallest = 32

export async function readCopies(folder: string): Promise<Copies> {
  const text = await readFile(join(folder, 'copies.json'), 'utf8').catch(() => '[]')
  const found = JSON.parse(text) as [string, BytePath, number?][]
  const known = new Map(found.map(([key, path, similarity = 100]) => [key, { path, similarity }]))
  return (entry) => known.get(copyKey(entry)) ?? null
}

/** How much of a file must be as it was, for it to be taken as the same one under another name. */
const sureSimilarity = 75
/** Ours and git's ways to count differ by a little. */
const margin = 10

/**
 * Whether what the user writes under the old name of a file belongs into the new one. That a file was renamed is a
 * guess by content: where it is as much like another one that was there, it may be a copy of that, and the old one
 * was deleted.
 */
export function isSureRename(file: FileView, copyOf: Copies): boolean {
  if (file.from === null || file.similarity < sureSimilarity) return false
  return (copyOf(file.entry)?.similarity ?? 0) < file.similarity - margin
}

/**
 * Finds what new files are copies of: files beside them, and files of the same name in folders beside theirs, which is
 * where `cp` and `cp -r` are used within a project. Changed originals the view knows already. Of a file that looks
 * renamed, whether it may as well be a copy of another one.
 */
export async function noteCopies(
  folder: string,
  view: View,
  roots: readonly WorkspaceRoot[],
  gitDir: string,
  disk: Disk,
): Promise<void> {
  await using blobs = new BlobReader(gitDir)
  const found: [string, BytePath, number][] = []
  for (const root of roots) {
    const added = view.files.filter((file) => file.entry.root === root.path && isNewText(file))
    if (added.length === 0) continue
    using base = new QuickTree(sidesOf(root).base, baseOwner(root), disk)
    const search = new Search(base)
    const pace = new Pace()
    for (const file of added) {
      if (pace.isDue) await pace.breathe()
      const copy = search.originalOf(file, await linesIn(file, blobs))
      if (copy !== null) found.push([copyKey(file.entry), copy.path, copy.similarity])
    }
  }
  if (found.length > 0) await replaceFile(disk, join(folder, 'copies.json'), JSON.stringify(found), false)
}

function isNewText({ change, copyOf, entry }: FileView): boolean {
  const { result } = entry
  return (
    (change === 'added' || change === 'renamed') &&
    copyOf === null &&
    result?.kind === 'file' &&
    result.size > 0 &&
    result.size <= largestCopy
  )
}
/** The hunks of a new file are all of it; those of a renamed one are what differs from the old. */
async function linesIn({ entry, from, hunks }: FileView, blobs: BlobReader): Promise<readonly string[]> {
  if (from !== null && entry.result?.kind === 'file') return linesOf(await blobs.read(entry.result.oid))
  return hunks.flatMap((hunk) =>
    hunk.lines.filter((line) => line.startsWith('+')).map((line) => line.slice(1)),
  )
}
const linesOf = (content: Buffer | null): readonly string[] =>
  content?.toString('latin1').replace(/\n$/, '').split('\n') ?? []
const copyKey = (entry: Entry): string =>
  `${entryKey(entry)}\0${entry.result !== null && 'sha256' in entry.result ? entry.result.sha256 : ''}`

const lengthOf = (lines: readonly string[]) => lines.reduce((sum, line) => sum + line.length + 1, 0)
const endingOf = (path: BytePath) => /\.[^./]*$/.exec(path)?.[0] ?? ''

class Search {
  readonly #base: QuickTree
  readonly #names = new Map<BytePath, readonly BytePath[]>()
  readonly #hashes = new Map<BytePath, string>()
  readonly #lines = new Map<BytePath, ReadonlyMap<string, number>>()
  readonly #sizes = new Map<BytePath, number>()
  #looks = 0
  #compared = 0
  #bytes = 0

  constructor(base: QuickTree) {
    this.#base = base
  }

  originalOf({ entry: { path, result }, from }: FileView, lines: readonly string[]): Copy | null {
    if (result?.kind !== 'file') return null
    const near: BytePath[] = []
    for (const candidate of this.#candidates(path)) {
      if (this.#looks >= mostLooks) break
      if (candidate === from?.path) continue
      this.#looks += 1
      const stat = this.#base.lstat(candidate)
      const size = stat?.isFile() === true ? Number(stat.size) : 0
      if (size === result.size && this.#hashOf(candidate, size) === result.sha256)
        return { path: candidate, similarity: 100 }
      const isNear = size >= smallest && size <= result.size * 2 && size * 2 >= result.size
      if (isNear && near.length < mostNear && endingOf(candidate) === endingOf(path)) near.push(candidate)
    }
    return this.#nearest(lines, near)
  }

  /** By the lines they share, as git does it: at least half of the larger one. */
  #nearest(lines: readonly string[], near: readonly BytePath[]): Copy | null {
    let best: Copy | null = null
    for (const path of near) {
      if (this.#compared >= mostCompared) break
      this.#compared += 1
      const others = new Map(this.#linesOf(path))
      let shared = 0
      for (const line of lines) {
        const left = others.get(line) ?? 0
        if (left === 0) continue
        others.set(line, left - 1)
        shared += line.length + 1
      }
      const similarity = Math.floor((shared * 100) / Math.max(lengthOf(lines), this.#sizes.get(path) ?? 1))
      if (similarity >= 50 && similarity > (best?.similarity ?? 0)) best = { path, similarity }
    }
    return best
  }

  /** How often each line is in it. */
  #linesOf(path: BytePath): ReadonlyMap<string, number> {
    const known = this.#lines.get(path)
    if (known !== undefined) return known
    const content = this.#bytes > largestTotal ? null : this.#read(path)
    this.#bytes += content?.length ?? 0
    const lines = linesOf(content)
    const counted = new Map<string, number>()
    for (const line of lines) counted.set(line, (counted.get(line) ?? 0) + 1)
    this.#lines.set(path, counted)
    this.#sizes.set(path, lengthOf(lines))
    return counted
  }

  *#candidates(path: BytePath): Generator<BytePath> {
    let [at, rest] = [path, '']
    for (let level = 0; level <= levels; level += 1) {
      const parent = parentOf(at)
      for (const name of this.#listed(parent)) {
        const beside = joinPath(parent, name)
        if (beside !== at) yield rest === '' ? beside : joinPath(beside, rest)
      }
      if (parent === '') return
      rest = rest === '' ? nameOf(at) : `${nameOf(at)}/${rest}`
      at = parent
    }
  }

  #listed(folder: BytePath): readonly BytePath[] {
    const known = this.#names.get(folder)
    if (known !== undefined) return known
    let names: readonly BytePath[] = []
    try {
      names = this.#base.list(folder).slice(0, mostNames)
    } catch {
      // New with what is in it, or closed to us: nothing in it was there before.
    }
    this.#names.set(folder, names)
    return names
  }

  #hashOf(path: BytePath, size: number): string {
    const known = this.#hashes.get(path)
    if (known !== undefined) return known
    this.#bytes += size
    const content = this.#bytes > largestTotal ? null : this.#read(path)
    const hash = content === null ? '' : createHash('sha256').update(content).digest('hex')
    this.#hashes.set(path, hash)
    return hash
  }

  #read(path: BytePath): Buffer | null {
    try {
      return this.#base.read(path)
    } catch {
      return null
    }
  }
}
