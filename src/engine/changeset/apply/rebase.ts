import type { Base, Bases } from '../capture/bases.ts'
import type { BytePath } from '../bytePath.ts'
import type { Disk } from '../disk.ts'
import { entryKey, sameSide, type Entry, type Manifest, type Side } from '../manifest.ts'
import { largeFile, writeTree, type TreeItem } from '../objects/objects.ts'
import { PackWriter } from '../objects/packWriter.ts'

/** The same results seen from other bases: what has landed is no difference any more. */
export async function rebaseManifest(
  manifest: Manifest,
  bases: ReadonlyMap<string, Base>,
  returning: readonly Entry[],
  gitDir: string,
  disk: Disk,
): Promise<Manifest> {
  const present = new Set(manifest.entries.map(entryKey))
  const entries = [...manifest.entries, ...returning.filter((entry) => !present.has(entryKey(entry)))]
    .map((entry) => {
      const base = bases.get(entryKey(entry))
      return base === undefined ? entry : { ...entry, base: base.side, certain: base.certain }
    })
    .filter((entry) => !sameSide(entry.base, entry.result))
    .toSorted((a, b) => (a.root === b.root ? (a.path < b.path ? -1 : 1) : a.root < b.root ? -1 : 1))
  const writer = new PackWriter(gitDir, disk)
  const roots = []
  for (const root of manifest.roots)
    roots.push({ ...root, ...(await writeRootTrees(writer, root.path, entries)) })
  await writer.flush()
  return { ...manifest, roots, entries }
}

/** Base and result of one root as git trees, only of what changed. */
export async function writeRootTrees(
  writer: PackWriter,
  root: string,
  entries: readonly Entry[],
): Promise<{ base_tree: string; result_tree: string }> {
  const own = entries.filter((entry) => entry.root === root)
  return {
    base_tree: await writeReviewTree(
      writer,
      own.map(({ path, base }) => ({ path, side: base })),
    ),
    result_tree: await writeReviewTree(
      writer,
      own.map(({ path, result }) => ({ path, side: result })),
    ),
  }
}

/** A tree to be compared, and no more: git would read a large file that comes or goes into memory, to say that it is binary. */
export async function writeReviewTree(
  writer: PackWriter,
  sides: readonly { readonly path: BytePath; readonly side: Side | null }[],
  besides: readonly TreeItem[] = [],
): Promise<string> {
  const items: TreeItem[] = [...besides]
  for (const { path, side } of sides) {
    const isLarge = side?.kind === 'file' && side.size > largeFile
    const oid = isLarge ? await writer.add('blob', Buffer.from(`\0large file ${side.sha256}\n`)) : null
    items.push(...treeItemOf(path, side).map((item) => (oid === null ? item : { ...item, oid })))
  }
  return await writeTree(writer, items)
}

/** What git can say of one side: nothing about folders, and of modes only whether the owner may run it. */
export function treeItemOf(path: BytePath, side: Side | null): TreeItem[] {
  if (side?.kind === 'symlink') return [{ path, mode: '120000', oid: side.oid }]
  if (side?.kind !== 'file') return []
  return [{ path, mode: (side.mode & 0o100) === 0 ? '100644' : '100755', oid: side.oid }]
}

/** Takes over bases that an apply or undo has set. */
export function adoptBases(bases: Bases, changed: readonly (readonly [string, Base | null])[]): void {
  for (const [key, base] of changed) {
    if (base === null) bases.recorded.delete(key)
    else bases.recorded.set(key, base)
  }
}
