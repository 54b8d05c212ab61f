import type { Bases } from '../capture/bases.ts'
import type { DiffPair } from './diffText.ts'
import { entryKey, sameSide, type Entry, type Manifest } from '../manifest.ts'
import type { ShownFile } from './shown.ts'
import type { View } from './view.ts'

/** What became different between two captures of one changeset: the inter-diff a reviewer reads. */
export function pairsBetween(before: Manifest, now: Manifest, bases: Bases): DiffPair[] {
  const earlier = new Map(before.entries.map((entry) => [entryKey(entry), entry]))
  const pairs: DiffPair[] = now.entries.map((entry) => ({
    root: entry.root,
    path: entry.path,
    base: earlier.has(entryKey(entry)) ? (earlier.get(entryKey(entry))?.result ?? null) : entry.base,
    result: entry.result,
  }))
  const present = new Set(now.entries.map(entryKey))
  for (const entry of before.entries) {
    if (present.has(entryKey(entry))) continue
    // No difference any more: it was put back, or it has landed.
    const base = bases.recorded.get(entryKey(entry))
    pairs.push({ root: entry.root, path: entry.path, base: entry.result, result: base?.side ?? entry.base })
  }
  return pairs.filter((pair) => !sameSide(pair.base, pair.result))
}

/** From one version of the agent's to another, under whatever name it goes now. */
export function pairsOf(before: Entry, now: Entry): DiffPair[] {
  const { root, path, result } = now
  if (before.path === path)
    return sameSide(before.result, result) ? [] : [{ root, path, base: before.result, result }]
  return [
    { root, path: before.path, base: before.result, result: null },
    { root, path, base: null, result },
  ]
}

/** What became of each file since. One that got another origin is told as something else than it is. */
export function filesSince(earlier: View, current: View): readonly ShownFile[] {
  const before = new Map(earlier.files.map((file) => [entryKey(file.entry), file]))
  return current.files
    .map((file) => ({ file, since: before.get(entryKey(file.entry)) ?? null }))
    .filter(({ file, since }) => file.from?.path === since?.from?.path)
}
