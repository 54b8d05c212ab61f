import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { WorkspaceRoot } from '../base/workspace.ts'
import { joinPath, nameOf, parentOf, type BytePath } from './bytePath.ts'
import { replaceFile, type Disk } from './disk.ts'
import { entryKey, type Entry } from './manifest.ts'
import { Pace } from './pace.ts'
import { QuickTree } from './quickTree.ts'
import { baseOwner, sidesOf } from './scan.ts'
import type { FileView, View } from './view.ts'

/** How far is looked: what a copy is of is worth telling, and no more. The cost must not grow with the tree. */
const mostLooks = 20_000
const mostNames = 512
const levels = 3
const largestCopy = 8 * 1024 * 1024
const largestTotal = 64 * 1024 * 1024

/** Of each new file, by its content: the untouched original that it is a copy of. */
export type Copies = (entry: Entry) => BytePath | null

export async function readCopies(folder: string): Promise<Copies> {
  const text = await readFile(join(folder, 'copies.json'), 'utf8').catch(() => '[]')
  const known = new Map(JSON.parse(text) as [string, BytePath][])
  return (entry) => known.get(copyKey(entry)) ?? null
}

/**
 * Finds what new files are copies of: files beside them, and files of the same name in folders beside theirs, which is
 * where `cp` and `cp -r` are used within a project. Changed originals the view knows already.
 */
export async function noteCopies(
  folder: string,
  view: View,
  roots: readonly WorkspaceRoot[],
  disk: Disk,
): Promise<void> {
  const found: [string, BytePath][] = []
  for (const root of roots) {
    const added = view.files.filter((file) => file.entry.root === root.path && isNewText(file))
    if (added.length === 0) continue
    using base = new QuickTree(sidesOf(root).base, baseOwner(root))
    const search = new Search(base)
    const pace = new Pace()
    for (const { entry } of added) {
      if (pace.isDue) await pace.breathe()
      const original = search.originalOf(entry)
      if (original !== null) found.push([copyKey(entry), original])
    }
  }
  if (found.length > 0) await replaceFile(disk, join(folder, 'copies.json'), JSON.stringify(found), false)
}

function isNewText({ change, copyOf, entry }: FileView): boolean {
  const { result } = entry
  return (
    change === 'added' &&
    copyOf === null &&
    result?.kind === 'file' &&
    result.size > 0 &&
    result.size <= largestCopy
  )
}
const copyKey = (entry: Entry): string =>
  `${entryKey(entry)}\0${entry.result !== null && 'sha256' in entry.result ? entry.result.sha256 : ''}`

class Search {
  readonly #base: QuickTree
  readonly #names = new Map<BytePath, readonly BytePath[]>()
  readonly #hashes = new Map<BytePath, string>()
  #looks = 0
  #bytes = 0

  constructor(base: QuickTree) {
    this.#base = base
  }

  originalOf({ path, result }: Entry): BytePath | null {
    if (result?.kind !== 'file') return null
    for (const candidate of this.#candidates(path)) {
      if (this.#looks >= mostLooks) return null
      this.#looks += 1
      const stat = this.#base.lstat(candidate)
      if (stat?.isFile() !== true || Number(stat.size) !== result.size) continue
      if (this.#hashOf(candidate, result.size) === result.sha256) return candidate
    }
    return null
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
