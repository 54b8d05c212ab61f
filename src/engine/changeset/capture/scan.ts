import { readCopiedTree, type CopiedTree } from '../../base/copiedTree.ts'
import { opaqueFolders, opaquePattern, readOpaque } from '../../base/opaqueFolders.ts'
import { readPlaceholders } from '../../base/placeholders.ts'
import { run } from '../../base/process.ts'
import type { Workspace, WorkspaceRoot } from '../../base/workspace.ts'
import { fromText, joinPath, nameOf, parentOf, rootPath, type BytePath } from '../bytePath.ts'
import { errorCode, realDisk, unlessMissing, type Disk, type DiskStat } from '../disk.ts'
import { Pace } from '../pace.ts'
import { findBoth, type Glance } from './foundTree.ts'
import { isMissing, QuickTree } from './quickTree.ts'
import { Tree } from '../objects/tree.ts'

/** A path that may have changed: what the agent left there and what the original has. Null: nothing. */
export type Seen<Stat extends Glance = DiskStat> = {
  readonly path: BytePath
  readonly result: Stat | null
  readonly base: Stat | null
}
export type RootScan = {
  readonly root: WorkspaceRoot
  readonly seen: readonly Seen[]
  /** Folders whose contents could not be listed. */
  readonly unreadable: readonly BytePath[]
}

/** ctimes come from a coarse clock that lags a little behind the one we recorded the start with. */
export const clockSlackMs = 50

/** Where the agent's version of a root lies, and the original it started from. */
export function sidesOf(root: WorkspaceRoot): { result: string; base: string } {
  return root.mount.kind === 'overlay'
    ? { result: root.mount.upper, base: root.mount.lower }
    : { result: root.mount.source, base: root.path }
}

/**
 * Over an overlay we look only into folders that are folders in the original too. Beside a copy the agent may
 * have made a folder of what is a link there: by path we would follow it.
 */
export function baseOwner(root: WorkspaceRoot): 'ours' | 'theirs' {
  return root.mount.kind === 'overlay' ? 'ours' : 'theirs'
}

/** Lists what may have changed in one root, without reading a single file. Costs what the agent touched. */
export async function scanRoot(
  workspace: Workspace,
  root: WorkspaceRoot,
  locked: LockedFolders | null = null,
  disk: Disk = realDisk,
): Promise<RootScan> {
  const sides = sidesOf(root)
  if (locked !== null && sides.result !== sides.base) await openRoot(sides.result, disk)
  using result = new QuickTree(sides.result, 'theirs', disk)
  using base = new QuickTree(sides.base, baseOwner(root), disk)
  const scan = newScan(result, base, locked)
  if (root.mount.kind === 'overlay') {
    // Another process asks for the attributes while we walk.
    const marked = opaqueFolders(sides.result)
    marked.catch(() => {})
    const opened = locked?.count ?? 0
    await scanOverlay(scan, workspace, async () => {
      // It could not look into what the walk had to open first: what is in there is asked for once more.
      return (locked?.count ?? 0) === opened ? marked : opaqueFolders(sides.result)
    })
  } else {
    const begun = BigInt(Math.floor(workspace.createdAtMs - clockSlackMs)) * 1_000_000n
    const done = workspace.copiedAtMs === undefined ? begun : BigInt(workspace.copiedAtMs) * 1_000_000n
    const tree = await readCopiedTree(root.mount.source)
    await walkCopy(scan, { begun, done, tree }, rootPath, false)
  }
  return { root, seen: await withoutPlaceholders(scan.seen, workspace, root), unreadable: scan.unreadable }
}

const isEmptyFile = ({ mode, size }: Glance) => (mode & 0o170000n) === 0o100000n && size === 0n

/** A file that only waits to be written is no change, whatever the user has put in its place meanwhile. */
async function withoutPlaceholders<Stat extends Glance>(
  seen: readonly Seen<Stat>[],
  workspace: Workspace,
  { path: root }: WorkspaceRoot,
): Promise<readonly Seen<Stat>[]> {
  const noted = (await readPlaceholders(workspace)).filter((each) => each.root === root)
  const paths = new Set(noted.map(({ path }) => fromText(path)))
  return seen.filter(({ path, result }) => !(paths.has(path) && result !== null && isEmptyFile(result)))
}

/**
 * An agent that closes its whole root would keep all its work from us. The mode of a root never lands, and whoever comes
 * after, be it the next turn, must get in: it stays open.
 */
async function openRoot(root: string, disk: Disk): Promise<void> {
  const stat = await unlessMissing(disk.lstat(root))
  const isClosed = stat?.isDirectory() === true && (stat.mode & 0o700n) !== 0o700n
  if (isClosed) await disk.chmodFolder(root, Number(stat.mode & 0o7777n) | 0o700)
}

/** The same as far as kinds, modes and sizes go, at half the cost over an overlay. */
export async function glanceAt(workspace: Workspace, root: WorkspaceRoot): Promise<readonly Seen<Glance>[]> {
  if (root.mount.kind !== 'overlay') return (await scanRoot(workspace, root)).seen
  const sides = sidesOf(root)
  using result = new QuickTree(sides.result)
  using base = new QuickTree(sides.base, baseOwner(root))
  const found = await findBoth(result, base, opaquePattern)
  const scan = newScan<Glance>(found?.result ?? result, found?.base ?? base, null)
  const marked = found === null ? opaqueFolders(sides.result) : readOpaque(sides.result, found.attributes)
  await scanOverlay(scan, workspace, async () => marked)
  return withoutPlaceholders(scan.seen, workspace, root)
}

function newScan<Stat extends Glance>(
  result: Scan<Stat>['result'],
  base: Scan<Stat>['base'],
  locked: LockedFolders | null,
): Scan<Stat> {
  return { result, base, seen: [], unreadable: [], locked, pace: new Pace(), folders: [] }
}

async function scanOverlay<Stat extends Glance>(
  scan: Scan<Stat>,
  workspace: Workspace,
  marked: () => Promise<ReadonlySet<string>>,
): Promise<void> {
  const dialect = workspace.driver === 'fuse-overlayfs' ? fuseOverlay : kernelOverlay
  await walkUpper(scan, dialect, rootPath, true)
  const opaque = await marked()
  await noteCut(scan, new Set<string>([...opaque, ...(await deepOpaque(scan))]))
}

type Scanned<Stat extends Glance> = {
  readonly root: string
  lstat(path: BytePath): Stat | null
  list(path: BytePath): BytePath[]
}
type Scan<Stat extends Glance> = {
  readonly result: Scanned<Stat>
  readonly base: Scanned<Stat>
  readonly seen: Seen<Stat>[]
  readonly unreadable: BytePath[]
  readonly locked: LockedFolders | null
  readonly pace: Pace
  /** Folders of the upper layer that lie over one of the original, with what they have. */
  readonly folders: {
    readonly path: BytePath
    readonly names: ReadonlySet<string>
    readonly isCut: boolean
  }[]
}

/** Folders the agent locked us out of, opened for the length of one capture and locked again after it. */
export class LockedFolders implements AsyncDisposable {
  readonly #opened: { tree: Tree; path: BytePath; mode: number }[] = []
  /** One for each root: they are as many folders as the agent likes, and a tree keeps only so many open. */
  readonly #trees = new Map<string, Tree>()
  readonly #disk: Disk

  constructor(disk: Disk) {
    this.#disk = disk
  }

  get count(): number {
    return this.#opened.length
  }

  async open(root: string, path: BytePath): Promise<void> {
    const tree = this.#trees.get(root) ?? new Tree(root, this.#disk)
    this.#trees.set(root, tree)
    const stat = await tree.lstat(path)
    if (stat === null || path === rootPath) return
    const mode = Number(stat.mode & 0o7777n)
    await this.#set(tree, path, mode | 0o700)
    this.#opened.push({ tree, path, mode })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { tree, path, mode } of this.#opened.toReversed()) {
      await this.#set(tree, path, mode).catch(() => {})
    }
    for (const tree of this.#trees.values()) await tree[Symbol.asyncDispose]()
  }

  #set(tree: Tree, path: BytePath, mode: number): Promise<void> {
    return tree.within(parentOf(path), (parent) => tree.disk.chmodFolder(parent.at(nameOf(path)), mode))
  }
}

/** How an overlay says "deleted": the kernel by a device 0:0, fuse-overlayfs where it cannot by `.wh.` files. */
type Dialect = {
  readonly whiteoutOf: (name: string, stat: Glance) => string | null
  readonly opaqueMark: string | null
}
const kernelOverlay: Dialect = {
  whiteoutOf: (name, stat) => (stat.isCharacterDevice() && stat.rdev === 0n ? name : null),
  opaqueMark: null,
}
const fuseOverlay: Dialect = {
  whiteoutOf: (name, stat) =>
    kernelOverlay.whiteoutOf(name, stat) ?? (name.startsWith('.wh.') ? name.slice(4) : null),
  opaqueMark: '.wh..wh..opq',
}

async function walkUpper<Stat extends Glance>(
  scan: Scan<Stat>,
  dialect: Dialect,
  path: BytePath,
  hasBase: boolean,
): Promise<void> {
  const names = await listOrNote(scan, path)
  const present = new Set<string>()
  const folders: { path: BytePath; hasBase: boolean }[] = []
  for (const name of names) {
    if (name === dialect.opaqueMark) continue
    if (scan.pace.isDue) await scan.pace.breathe()
    const at = joinPath(path, name)
    const stat = scan.result.lstat(at)
    if (stat === null) continue
    const gone = dialect.whiteoutOf(name, stat)
    const where = gone === null ? at : joinPath(path, gone)
    present.add(gone ?? name)
    const base = hasBase ? scan.base.lstat(where) : null
    scan.seen.push({ path: where, result: gone === null ? stat : null, base })
    if (gone === null && stat.isDirectory()) folders.push({ path: at, hasBase: base?.isDirectory() === true })
    else if (base?.isDirectory() === true) await walkGone(scan, where)
  }
  const isCut = dialect.opaqueMark !== null && names.includes(dialect.opaqueMark as BytePath)
  if (hasBase) scan.folders.push({ path, names: present, isCut })
  for (const folder of folders) await walkUpper(scan, dialect, folder.path, folder.hasBase)
}

/** Where a folder replaced the original one whole, whatever the upper lacks in it and below is gone. */
async function noteCut<Stat extends Glance>(scan: Scan<Stat>, opaque: ReadonlySet<string>): Promise<void> {
  const cut = new Set<BytePath>()
  // Parents come before what is in them.
  for (const { path, names, isCut } of scan.folders) {
    if (!isCut && !opaque.has(path) && (path === rootPath || !cut.has(parentOf(path)))) continue
    cut.add(path)
    for (const name of listBase(scan, path)) if (!names.has(name)) await noteGone(scan, joinPath(path, name))
  }
}

/** Everything below an original folder that the agent's version does not have any more. */
async function walkGone<Stat extends Glance>(
  scan: Scan<Stat>,
  path: BytePath,
  had: Had = () => true,
): Promise<void> {
  for (const name of listBase(scan, path))
    if (had(path, name)) await noteGone(scan, joinPath(path, name), had)
}
/** Whether the agent was given what the original folder has now under that name. */
type Had = (folder: BytePath, name: string) => boolean
async function noteGone<Stat extends Glance>(scan: Scan<Stat>, path: BytePath, had?: Had): Promise<void> {
  if (scan.pace.isDue) await scan.pace.breathe()
  const base = scan.base.lstat(path)
  if (base === null) return
  scan.seen.push({ path, result: null, base })
  if (base.isDirectory()) await walkGone(scan, path, had)
}

type Copied = {
  readonly begun: bigint
  readonly done: bigint
  readonly tree: CopiedTree | null
}

/**
 * A copy has no whiteouts: what the agent touched is what has a ctime after the copy was complete (nobody can set
 * one back), and what it deleted is missing from a folder with such a ctime. What came along in a folder that was
 * renamed has kept its own ctime: such a folder is compared whole.
 */
async function walkCopy(
  scan: Scan<DiskStat>,
  copied: Copied,
  path: BytePath,
  isMoved: boolean,
): Promise<void> {
  const had: Had = (folder, name) => mayHaveHad(copied, folder, name)
  const names = await listOrNote(scan, path)
  const present = new Set<string>(names)
  const folders: { path: BytePath; isMoved: boolean }[] = []
  for (const name of names) {
    if (scan.pace.isDue) await scan.pace.breathe()
    const at = joinPath(path, name)
    const stat = scan.result.lstat(at)
    if (stat === null) continue
    const mayDiffer = isMoved || stat.ctimeNs >= copied.done
    const base = mayDiffer ? scan.base.lstat(at) : null
    const isKept = stat.isDirectory() && (!mayDiffer || isAsCopied(copied, at, stat, base))
    if (stat.isDirectory()) folders.push({ path: at, isMoved: !isKept })
    // A folder that was copied from here and has no original any more: the user has removed that.
    if (!mayDiffer || (isKept && base === null)) continue
    scan.seen.push({ path: at, result: stat, base })
    if (!stat.isDirectory() && base?.isDirectory() === true) await walkGone(scan, at, had)
  }
  const own = scan.result.lstat(path)
  if (own !== null && (isMoved || own.ctimeNs >= copied.done)) {
    for (const name of listBase(scan, path)) {
      if (present.has(name) || !had(path, name)) continue
      const base = scan.base.lstat(joinPath(path, name))
      // Newer than a copy of which nothing is recorded: the agent may never have had it to delete.
      if (base === null || (copied.tree === null && base.ctimeNs >= copied.begun)) continue
      await noteGone(scan, joinPath(path, name), had)
    }
  }
  for (const folder of folders) await walkCopy(scan, copied, folder.path, folder.isMoved)
}

/** Whether a folder is the one that was copied to this path, and not one that the agent made or put there. */
function isAsCopied({ tree }: Copied, path: BytePath, stat: DiskStat, base: DiskStat | null): boolean {
  return tree === null ? base?.isDirectory() === true : tree.get(path)?.copy === String(stat.ino)
}

/** What the user has put into a folder since may be as old as can be. */
function mayHaveHad({ tree }: Copied, folder: BytePath, name: string): boolean {
  return tree === null || tree.get(folder)?.names.has(name) === true
}

function listBase<Stat extends Glance>(scan: Scan<Stat>, path: BytePath): readonly BytePath[] {
  try {
    return scan.base.list(path)
  } catch (error) {
    if (isMissing(error)) return []
    if (errorCode(error) !== 'EACCES') throw error
    scan.unreadable.push(path)
    return []
  }
}

async function listOrNote<Stat extends Glance>(scan: Scan<Stat>, path: BytePath): Promise<BytePath[]> {
  try {
    return scan.result.list(path)
  } catch (error) {
    if (isMissing(error)) return []
    if (errorCode(error) !== 'EACCES') throw error
  }
  // Gone or swapped between listing and opening: the next capture sees what it became.
  try {
    if (scan.locked !== null) {
      await scan.locked.open(scan.result.root, path)
      return scan.result.list(path)
    }
  } catch (error) {
    if (!isMissing(error) && !['EACCES', 'EPERM'].includes(errorCode(error))) throw error
  }
  scan.unreadable.push(path)
  return []
}

/** No program takes a path of more than 4,096 bytes: of what lies deeper it is asked by descriptor. */
async function deepOpaque<Stat extends Glance>({ result, folders }: Scan<Stat>): Promise<BytePath[]> {
  const most = longestPath - Buffer.byteLength(result.root)
  const found: BytePath[] = []
  await using tree = new Tree(result.root)
  for (const { path } of folders) {
    if (path.length < most) continue
    const said = await unlessMissing(
      tree.within(path, ({ handle }) =>
        run('getfattr', ['-m', opaquePattern, '--absolute-names', '--', '/proc/self/fd/3/.'], {
          descriptors: [handle],
        }),
      ),
    )
    if (said !== null && said.stdout.length > 0) found.push(path)
  }
  return found
}
const longestPath = 4000
