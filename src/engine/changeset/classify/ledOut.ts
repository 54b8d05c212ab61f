import { OrangeryError } from '../../../shared/errors.ts'
import { run } from '../../base/process.ts'
import type { ChangesetRecord, ChangesetRecords } from '../../base/changesetRecords.ts'
import {
  fromBytes,
  fromText,
  isBelow,
  joinPath,
  nameOf,
  parentOf,
  rootPath,
  type BytePath,
} from '../bytePath.ts'
import { homesOf } from './classifyEntries.ts'
import { followLink, type Home, type LinkAt, type Place } from './links.ts'
import { entryKey } from '../manifest.ts'
import type { BlobReader } from '../objects/objects.ts'
import type { Step } from '../apply/steps.ts'
import { Tree } from '../objects/tree.ts'

/** A link of the folder that stays in the roots now, and what on its way would lead it out. */
export type LedOut = { readonly link: Place; readonly because: readonly Step[] }
type Ground = {
  readonly trees: ReadonlyMap<string, Tree>
  readonly homes: readonly Home[]
  readonly blobs: BlobReader
  /** The steps bring back what was there at this time: a link that led out then, and is of before, leads out as it did. */
  readonly backToMs?: number
}
/** Roots that agents were given together, other than these. */
export type Neighbours = () => readonly (readonly Home[])[]
const patienceMs = 60_000

/**
 * A link that landed earlier may stay by its text alone, its way not being there, and leave once another change makes
 * that way: `a -> b/c/../../secret` first, `b/c -> ../x` later. So whatever brings or takes a link is judged by every
 * link there is, as all of them will lead. (escape: link-through-a-swap) Also by those of other roots that a part of
 * these lies in: `a -> sub/x/../../secret` landed in a folder, then `x -> .` in its `sub`.
 */
export async function ledOut(
  steps: ReadonlyMap<string, Step>,
  ground: Ground,
  neighbours: Neighbours,
): Promise<LedOut[]> {
  if (![...steps.values()].some(turnsLink)) return []
  const found = await ledOutOf(steps, ground)
  for (const homes of neighbours()) {
    const originals = stepsIn(homes, steps)
    const theirs = new Map([...originals.keys()].map((step) => [entryKey(step), step]))
    await using held = new AsyncDisposableStack()
    const disk = [...ground.trees.values()][0]?.disk
    if (disk === undefined) continue
    const trees = new Map(homes.map(({ name }) => [name, held.use(new Tree(name, disk))]))
    for (const { link, because } of await ledOutOf(theirs, { ...ground, trees, homes }))
      found.push({ link, because: because.flatMap((step) => originals.get(step) ?? []) })
  }
  return found
}

export function neighboursOf(records: ChangesetRecords, { workspace }: ChangesetRecord): Neighbours {
  const keyOf = (homes: readonly Home[]) =>
    homes
      .map(({ name }) => name)
      .toSorted()
      .join('\0')
  return () => {
    const sets = records.list().map((record) => homesOf(record.workspace))
    const known = new Map(sets.map((homes) => [keyOf(homes), homes]))
    known.delete(keyOf(homesOf(workspace)))
    return [...known.values()]
  }
}

const turnsLink = ({ before, after }: Step) => before?.kind === 'symlink' || after?.kind === 'symlink'

/** Those that change something in these roots, told by where they lie in them. */
function stepsIn(homes: readonly Home[], steps: ReadonlyMap<string, Step>): ReadonlyMap<Step, Step> {
  const found = new Map<Step, Step>()
  for (const step of steps.values()) {
    const place = joinPath(fromText(step.root), step.path)
    for (const { name } of homes) {
      const folder = fromText(name)
      if (!isBelow(place, folder)) continue
      found.set({ ...step, root: name, path: place.slice(folder.length + 1) as BytePath }, step)
    }
  }
  return found
}

async function ledOutOf(steps: ReadonlyMap<string, Step>, ground: Ground): Promise<LedOut[]> {
  const turning = [...steps.values()].filter(turnsLink)
  if (turning.length === 0) return []
  const [before, after] = [linksOnDisk(ground.trees), linksAfter(steps, ground)]
  const found: LedOut[] = []
  for (const [root, tree] of ground.trees) {
    if ((await tree.lstat(rootPath)) === null) continue
    for (const path of await linksIn(root)) {
      const link = { root, path }
      const target = steps.has(entryKey(link)) ? null : await before(root, path)
      if (target === null) continue
      const now = await followLink({ ...link, target }, ground.homes, before)
      const then = now.stays ? await followLink({ ...link, target }, ground.homes, after) : now
      if (!now.stays || then.stays || (await ledOutBefore({ ...link, target }, steps, ground))) continue
      const way = new Set([...now.through, ...then.through].map(entryKey))
      found.push({ link, because: turning.filter((step) => way.has(entryKey(step))) })
    }
  }
  return found
}

/** Judged without any link that has come since, the others on its way among them. */
async function ledOutBefore(
  link: Place & { readonly target: string },
  steps: ReadonlyMap<string, Step>,
  ground: Ground,
): Promise<boolean> {
  const { trees, homes, backToMs } = ground
  if (backToMs === undefined) return false
  const isOld = async ({ root, path }: Place) =>
    Number((await trees.get(root)?.lstat(path))?.ctimeMs ?? Infinity) < backToMs
  if (!(await isOld(link))) return false
  const after = linksAfter(steps, ground)
  const then = await followLink(link, homes, async (root, path) =>
    steps.has(entryKey({ root, path })) || (await isOld({ root, path })) ? after(root, path) : null,
  )
  return !then.stays
}

/** Where links lead as things are. */
export function linksOnDisk(trees: ReadonlyMap<string, Tree>): LinkAt {
  return async (root, path) => {
    const tree = trees.get(root)
    if ((await tree?.lstat(path))?.isSymbolicLink() !== true) return null
    const read = tree?.within(parentOf(path), (folder) => tree.disk.readlink(folder.at(nameOf(path))))
    return (await read)?.toString('latin1') ?? null
  }
}

/** And as they will, once these have landed. */
export function linksAfter(
  steps: ReadonlyMap<string, Step>,
  { trees, blobs }: Pick<Ground, 'trees' | 'blobs'>,
): LinkAt {
  const onDisk = linksOnDisk(trees)
  return async (root, path) => {
    const step = steps.get(entryKey({ root, path }))
    if (step === undefined) return onDisk(root, path)
    return step.after?.kind === 'symlink' ? (await blobs.read(step.after.oid)).toString('latin1') : null
  }
}

async function linksIn(root: string): Promise<readonly BytePath[]> {
  // What is in a repository no agent has landed. Kinds first: names of all files take three times as long.
  const args = ['-P', '.', '-type', 'l', '-print0', '-o', '-type', 'f', '-o', '-name', '.git', '-prune']
  const found = await run('find', args, { cwd: root, timeoutMs: patienceMs }).catch(() => null)
  // 1: some folder is closed to us, and so is whatever lies in it.
  if (found === null || (found.code !== 0 && found.code !== 1))
    throw new OrangeryError('changeset.links_unknown', `${root}: its links could not be listed in time`, {
      kind: 'cannot_create',
      hint: 'Nothing was changed. A changeset with links lands only where all links can be looked at.',
    })
  const paths = fromBytes(found.stdout).split('\0')
  return paths.filter((path) => path !== '').map((path) => path.slice('..'.length) as BytePath)
}
