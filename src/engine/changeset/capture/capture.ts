import { createHash } from 'node:crypto'
import { realpath } from 'node:fs/promises'
import { OrangeryError } from '../../../shared/errors.ts'
import { readCopiedTree } from '../../base/copiedTree.ts'
import type { ThroughHolder } from '../../base/throughHolder.ts'
import type { Workspace, WorkspaceRoot } from '../../base/workspace.ts'
import type { Layout } from '../../base/paths.ts'
import type { UserLinks } from '../classify/aliases.ts'
import { gitPartOf, isIgnoreFile, isMarker, isPackageFile } from '../classify/classify.ts'
import { classifyEntries } from '../classify/classifyEntries.ts'
import { isUtf8, namedPath, parentOf, rootPath, toText, type BytePath } from '../bytePath.ts'
import { readBases, type Bases } from './bases.ts'
import { captureCommits, type Nested } from '../commits/commits.ts'
import { droppedGit, droppedInGitRoot, droppedMarkers, withoutFrozen } from '../classify/droppedGit.ts'
import { permissionBits, storeQuickly, storeSide, Unstable } from './content.ts'
import { unlessMissing, type Disk, type DiskStat } from '../disk.ts'
import { HostDrift } from './hostDrift.ts'
import { knownFolders } from './hostFolders.ts'
import { entryKey, sameSide, type Entry, type Manifest, type Side } from '../manifest.ts'
import { ensureRepository } from '../objects/objects.ts'
import { PackWriter } from '../objects/packWriter.ts'
import { Pace } from '../pace.ts'
import { QuickTree } from './quickTree.ts'
import { writeRootTrees } from '../apply/rebase.ts'
import {
  baseOwner,
  clockSlackMs,
  LockedFolders,
  scanRoot,
  sidesOf,
  type RootScan,
  type Seen,
} from './scan.ts'
import { Tree } from '../objects/tree.ts'
import { Unreadable } from './unreadable.ts'

export type CaptureOptions = {
  readonly disk: Disk
  readonly layout: Layout
  readonly protectedPaths: readonly string[]
  readonly through?: ThroughHolder | undefined
  readonly signal?: AbortSignal | undefined
  readonly final: boolean
  /** Links by which the user reaches files under other names. */
  readonly userLinks: (workspace: Workspace, roots: readonly WorkspaceRoot[]) => Promise<UserLinks>
  /** The sign of the last look: where nothing differs from it there is nothing to do. */
  readonly lastSign?: string | undefined
  /** When the agent's turn began, from the second one on. */
  readonly turnMs: number | null
}
export type Captured = {
  readonly revision: string
  readonly files: number
  readonly insertions: number
  readonly deletions: number
  /** What the agent committed; known at the end of its turn. */
  readonly commits?: Manifest['commits']
}

export type WorkspaceCapture = {
  readonly manifest: Manifest
  readonly bases: Bases
  /** Names what was seen; null where it cannot be relied on. */
  readonly sign: string | null
  /** False: something the agent did or committed is only in its own layer. */
  readonly isWhole: boolean
  readonly writtenMs: (entry: { root: string; path: string }) => number
}
type Dropped = Manifest['dropped'][number]

// Compared with nothing, or with what a link in its place leads to, all the agent touched would look as if it had made it.
async function refuseMovedAway(root: string): Promise<void> {
  const found = await unlessMissing(realpath(root))
  if (found === root) return
  const why = found === null ? 'it is no longer there' : `a link leads from there to ${found} by now`
  throw new OrangeryError('changeset.root_gone', `${root}: ${why}`, {
    kind: 'cannot_create',
    hint: 'Put the folder back in its place, then ask again.',
  })
}

/** Records what the agent left, against what it started from, in two trees and a manifest. */
export async function captureWorkspace(
  workspace: Workspace,
  options: CaptureOptions,
): Promise<WorkspaceCapture | null> {
  const { disk, layout } = options
  const began = Date.now()
  // While the agent runs its modes are its own business; what it locks is read when it has ended.
  await using locked = new LockedFolders(disk)
  const roots = workspace.roots.filter((root) => root.role === 'project' && root.access === 'rw')
  for (const { path } of roots) await refuseMovedAway(path)
  const gitDir = layout.objects(workspace.repoId)
  const repository = ensureRepository(gitDir, disk)
  repository.catch(() => {})
  const scans: RootScan[] = []
  for (const root of roots) {
    options.signal?.throwIfAborted()
    scans.push(await scanRoot(workspace, root, options.final ? locked : null, disk))
  }
  const sign = signOf(scans, began)
  if (sign !== null && sign === options.lastSign) return null
  await repository
  const stored = await readBases(layout.changeset(workspace.repoId, workspace.id))
  const isShared = workspace.strategy !== 'worktree'
  const bases = {
    ...stored,
    folders: await knownFolders(stored.folders, scans, isShared && !options.final),
  }
  const writer = new PackWriter(gitDir, disk, options.final)
  const entries: Entry[] = []
  const dropped: Dropped[] = []
  let linked: Promise<UserLinks> | undefined
  let isWhole = true
  let hasSeenAll = true
  for (const scan of scans) {
    const { root } = scan
    for (const path of scan.unreadable) {
      dropped.push({
        root: root.path,
        ...(path === rootPath ? { path: '.' } : namedPath(path)),
        why: 'this folder cannot be listed: its mode or its owner forbids it',
      })
    }
    const kept = scan.seen.filter((seen) => !isMarker(seen.path) && gitPartOf(seen.path) === null)
    dropped.push(...droppedGit(root, scan.seen), ...droppedMarkers(root, scan.seen))
    if (kept.length > 0) linked ??= options.userLinks(workspace, roots)
    linked?.catch(() => {})
    const compared = await compareRoot(workspace, root, kept, bases, writer, dropped, options)
    entries.push(...compared.entries)
    isWhole &&= compared.isWhole && !scan.unreadable.includes(rootPath)
    hasSeenAll &&= compared.hasSeenAll && scan.unreadable.length === 0
  }
  const links = (await linked) ?? { inside: [], outside: [], unfinished: [] }
  for (const root of links.unfinished)
    dropped.push({ root, path: '.', why: 'too many files to look for links with protected names' })
  // Links and package files are looked into below; nothing else needs to be in place before the end.
  const isReadBelow = ({ path, result }: Entry) =>
    result?.kind === 'symlink' || isPackageFile(path) || isIgnoreFile(path)
  if (links.inside.length > 0 || entries.some(isReadBelow)) await writer.flush()
  const writeTrees = async () => {
    const written: Manifest['roots'] = []
    for (const { name, path } of roots)
      written.push({ name, path, ...(await writeRootTrees(writer, path, entries)) })
    await writer.flush()
    return written
  }
  const [classified, written] = await Promise.all([
    classifyEntries(workspace, roots, entries, gitDir, links, options),
    writeTrees(),
  ])
  const manifest: Manifest = {
    version: 1,
    id: workspace.id,
    roots: written,
    entries: classified,
    dropped,
    commits: [],
  }
  if (options.final) {
    const project = roots[0]?.path
    // Before its commits are read: looking through it opens the folders that the agent closed to us.
    for (const root of workspace.roots)
      if (project !== undefined && root.role === 'git' && root.access === 'rw')
        manifest.dropped.push(
          ...droppedInGitRoot(project, await withoutFrozen(await scanRoot(workspace, root, locked, disk))),
        )
    const history = await captureCommits(workspace, gitDir, disk, scans.flatMap(nestedIn))
    manifest.commits.push(...history.commits)
    manifest.dropped.push(...history.problems)
    isWhole &&= history.isWhole
  }
  return {
    manifest,
    bases: hasSeenAll ? { ...bases, look: { ms: began, final: options.final } } : bases,
    sign,
    isWhole,
    writtenMs: (entry) => writtenMs(bases, entry),
  }
}

/**
 * Names what a walk saw on both sides, without a byte of content. Null where something was written so shortly
 * before that it may be written again without showing it.
 */
function signOf(scans: readonly RootScan[], began: number): string | null {
  const digest = createHash('sha256')
  for (const { root, seen, unreadable } of scans) {
    digest.update(JSON.stringify([root.path, unreadable]))
    for (const { path, result, base } of seen) {
      if (result !== null && began - Number(result.ctimeMs) <= unsettledMs) return null
      digest.update(`${path}\0${identityOrNone(result)}\0${identityOrNone(base)}\n`, 'latin1')
    }
  }
  return digest.digest('hex')
}
const identityOrNone = (stat: DiskStat | null) => (stat === null ? '-' : identityOf(stat))

/** When the agent's version was last written, by the file's own clock; now for what it deleted. */
function writtenMs(bases: Bases, entry: { root: string; path: string }): number {
  const identity = bases.seen.get(`result\0${entryKey(entry)}`)?.identity
  return identity === undefined ? Date.now() : Number(BigInt(identity.split(':').at(-1) ?? 0) / 1_000_000n)
}

async function compareRoot(
  workspace: Workspace,
  root: WorkspaceRoot,
  seen: readonly Seen[],
  bases: Bases,
  writer: PackWriter,
  dropped: Dropped[],
  options: CaptureOptions,
): Promise<{ entries: readonly Entry[]; isWhole: boolean; hasSeenAll: boolean }> {
  const sides = sidesOf(root)
  await using resultTree = new Tree(sides.result, options.disk)
  await using baseTree = new Tree(sides.base, options.disk)
  using quickResult = new QuickTree(sides.result, 'theirs', options.disk)
  using quickBase = new QuickTree(sides.base, baseOwner(root), options.disk)
  const pace = new Pace()
  const entries: Entry[] = []
  const unread: BytePath[] = []
  let hasSeenAll = true
  // The checkout below a worktree sandbox is made for it alone; nobody else writes there.
  const ownBase = workspace.strategy === 'worktree'
  const startNs = nsOf(workspace.createdAtMs - clockSlackMs)
  const sawMs = sawAllMs(bases, options.turnMs)
  const sawNs = sawMs === null ? null : nsOf(sawMs - clockSlackMs)
  const copied = root.mount.kind === 'bind' ? await readCopiedTree(root.mount.source) : null
  const drift = new HostDrift(quickBase, startNs, copied, (folder) =>
    bases.folders?.get(entryKey({ root: root.path, path: folder })),
  )
  for (const { path, result: resultStat, base: baseStat } of seen) {
    options.signal?.throwIfAborted()
    await pace.breathe()
    const key = entryKey({ root: root.path, path })
    const sinceNs = bases.seen.has(`result\0${key}`) ? null : sawNs
    const result = await side(resultTree, path, resultStat, key)
    if (result === undefined || result === 'unreadable') hasSeenAll = false
    if (result === undefined) continue
    if (result === 'unreadable') {
      drop(path, "the agent's version cannot be read and stays in its workspace")
      continue
    }
    let base = bases.recorded.get(key)
    if (base === undefined) {
      const before = await side(baseTree, path, baseStat, key)
      // Without its bytes it can be neither reviewed nor brought back by undo.
      if (before === 'unreadable') {
        drop(path, 'you may not read the original, which stays as it is')
        continue
      }
      // A host file touched after the start may not be what the agent saw: its base is a guess.
      const certain =
        ownBase || (!bases.clockStepped && !drift.mayHaveChanged(path, baseStat, resultStat, sinceNs))
      base = { side: before ?? null, certain: certain && before !== undefined }
      if (!sameSide(base.side, result)) bases.recorded.set(key, base)
    }
    if (sameSide(base.side, result)) continue
    const { side: landing, why } = withoutRights(result, base.side)
    if (why !== null) {
      dropped.push({ root: root.path, ...namedPath(path), why })
      if (sameSide(base.side, landing)) continue
    }
    entries.push({
      root: root.path,
      path,
      base: base.side,
      result: landing,
      certain: base.certain,
      protected: false,
      ignored: false,
      refused: null,
    })
  }
  const isWhole = unread.length === 0
  return { entries: entries.toSorted((a, b) => (a.path < b.path ? -1 : 1)), isWhole, hasSeenAll }

  function drop(path: BytePath, why: string): void {
    dropped.push({ root: root.path, ...namedPath(path), why })
    unread.push(path)
  }

  async function side(
    tree: Tree,
    at: BytePath,
    stat: DiskStat | null,
    key: string,
  ): Promise<Side | null | undefined | 'unreadable'> {
    if (stat === null) return null
    const isResult = tree === resultTree
    const identity = identityOf(stat)
    const cacheKey = `${isResult ? 'result' : 'base'}\0${key}`
    const known = bases.seen.get(cacheKey)
    if (known !== undefined && known.identity === identity) return known.side
    for (let attempt = 0; ; attempt += 1) {
      try {
        const quick = await storeQuickly(isResult ? quickResult : quickBase, at, stat, writer)
        const stored =
          quick === undefined
            ? await unlessMissing(storeSide(tree, at, stat, writer, options.through))
            : quick
        if (stored !== null)
          bases.seen.set(cacheKey, { identity: settled(stat) ? identity : `?:${identity}`, side: stored })
        return stored
      } catch (error) {
        if (error instanceof Unreadable) return 'unreadable'
        if (!(error instanceof Unstable)) throw error
        if (attempt === 2) return undefined
      }
    }
  }
}

/** Until when whatever the agent had left was seen: while it was not running it left nothing more. */
function sawAllMs({ look }: Bases, turnMs: number | null): number | null {
  return look?.final === true && turnMs !== null ? Math.max(look.ms, turnMs) : (look?.ms ?? null)
}

const nsOf = (ms: number): bigint => BigInt(Math.floor(ms)) * 1_000_000n

/** File times tick coarsely: what was written a moment ago may be written again without showing it. */
function settled(stat: DiskStat): boolean {
  return Date.now() - Number(stat.ctimeMs) > unsettledMs
}
const unsettledMs = 100

/**
 * Takes off what must not land. A new folder comes with what is in it and nobody decides on its mode: were it
 * open to everyone, any user of the machine could put files into the project.
 */
function withoutRights(side: Side | null, base: Side | null): { side: Side | null; why: string | null } {
  if (side === null || !('mode' in side)) return { side, why: null }
  if (side.kind === 'directory' && base === null && (side.mode & 0o002) !== 0)
    return {
      side: { ...side, mode: side.mode & 0o775 },
      why: 'a new folder lands closed to writes of others',
    }
  if ((side.mode & 0o7000) === 0) return { side, why: null }
  return {
    side: { ...side, mode: side.mode & 0o777 },
    why: 'set-user-id, set-group-id and sticky bits never land',
  }
}

/** Nobody can set a ctime back, so an equal one means equal content. */
function identityOf(stat: DiskStat): string {
  return [stat.dev, stat.ino, stat.size, stat.mode & permissionBits, stat.mtimeNs, stat.ctimeNs].join(':')
}

/** Folders below a root in whose repositories the agent wrote. */
function nestedIn({ root, seen }: RootScan): Nested[] {
  const parts = new Set(seen.map(({ path }) => gitPartOf(path)).filter((part) => part !== null))
  return [...parts]
    .filter((part) => part.endsWith('/.git') && isUtf8(part))
    .map((part) => ({ root: root.path, folder: toText(parentOf(part)) }))
}
