import { OrangeryError } from '../../shared/errors.ts'
import { run } from '../base/process.ts'
import type { Workspace, WorkspaceRoot } from '../base/workspace.ts'
import { fromBytes, joinPath, nameOf, parentOf, rootPath, type BytePath } from './bytePath.ts'
import { errorCode, unlessMissing, type Disk, type DiskStat } from './disk.ts'
import { Tree } from './tree.ts'

/** A path that may have changed: what the agent left there and what the original has. Null: nothing. */
export type Seen = {
  readonly path: BytePath
  readonly result: DiskStat | null
  readonly base: DiskStat | null
}
export type RootScan = {
  readonly root: WorkspaceRoot
  readonly seen: readonly Seen[]
  /** Folders whose contents could not be listed. */
  readonly unreadable: readonly BytePath[]
}

/** ctimes come from a coarse clock that lags a little behind the one we recorded the start with. */
export const clockSlackMs = 50

const batch = 64

/** Where the agent's version of a root lies, and the original it started from. */
export function sidesOf(root: WorkspaceRoot): { result: string; base: string } {
  return root.mount.kind === 'overlay'
    ? { result: root.mount.upper, base: root.mount.lower }
    : { result: root.mount.source, base: root.path }
}

/** Lists what may have changed in one root, without reading a single file. Costs what the agent touched. */
export async function scanRoot(
  workspace: Workspace,
  root: WorkspaceRoot,
  disk: Disk,
  locked: LockedFolders | null = null,
): Promise<RootScan> {
  const sides = sidesOf(root)
  await using result = new Tree(sides.result, disk)
  await using base = new Tree(sides.base, disk)
  const scan: Scan = { result, base, seen: [], unreadable: [], disk, locked }
  if (root.mount.kind === 'overlay') {
    const opaque = await opaqueFolders(sides.result)
    const dialect = workspace.driver === 'fuse-overlayfs' ? fuseOverlay : kernelOverlay
    await walkUpper(scan, dialect, opaque, rootPath, true, false)
  } else {
    await walkCopy(scan, workspace.createdAtMs - clockSlackMs, rootPath)
  }
  return { root, seen: scan.seen, unreadable: scan.unreadable }
}

type Scan = {
  readonly result: Tree
  readonly base: Tree
  readonly seen: Seen[]
  readonly unreadable: BytePath[]
  readonly disk: Disk
  readonly locked: LockedFolders | null
}

/** Folders the agent locked us out of, opened for the length of one capture and locked again after it. */
export class LockedFolders implements AsyncDisposable {
  readonly #opened: { tree: Tree; path: BytePath; mode: number }[] = []

  async open(tree: Tree, path: BytePath): Promise<void> {
    const stat = await tree.lstat(path)
    if (stat === null || path === rootPath) return
    const mode = Number(stat.mode & 0o7777n)
    await this.#set(tree, path, mode | 0o700)
    this.#opened.push({ tree: new Tree(tree.root, tree.disk), path, mode })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { tree, path, mode } of this.#opened.toReversed()) {
      await this.#set(tree, path, mode).catch(() => {})
      await tree[Symbol.asyncDispose]()
    }
  }

  #set(tree: Tree, path: BytePath, mode: number): Promise<void> {
    return tree.within(parentOf(path), (parent) => tree.disk.chmodFolder(parent.at(nameOf(path)), mode))
  }
}

/** How an overlay says "deleted": the kernel by a device 0:0, fuse-overlayfs where it cannot by `.wh.` files. */
type Dialect = {
  readonly whiteoutOf: (name: string, stat: DiskStat) => string | null
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

/** `cut`: an ancestor replaced the original folder, so whatever the upper lacks here is gone. */
async function walkUpper(
  scan: Scan,
  dialect: Dialect,
  opaque: ReadonlySet<BytePath>,
  path: BytePath,
  hasBase: boolean,
  cut: boolean,
): Promise<void> {
  const names = await listOrNote(scan, path)
  const isCut = cut || opaque.has(path) || (dialect.opaqueMark !== null && names.includes(dialect.opaqueMark))
  const present = new Set<string>()
  const folders: { path: BytePath; hasBase: boolean }[] = []
  await inBatches(names, async (name) => {
    if (name === dialect.opaqueMark) return
    const at = joinPath(path, name)
    const stat = await scan.result.lstat(at)
    if (stat === null) return
    const gone = dialect.whiteoutOf(name, stat)
    const where = gone === null ? at : joinPath(path, gone)
    present.add(gone ?? name)
    const base = hasBase ? await scan.base.lstat(where) : null
    scan.seen.push({ path: where, result: gone === null ? stat : null, base })
    if (gone === null && stat.isDirectory()) folders.push({ path: at, hasBase: base?.isDirectory() === true })
    else if (base?.isDirectory() === true) await walkGone(scan, where)
  })
  if (isCut && hasBase) {
    for (const bytes of (await unlessMissing(scan.base.list(path))) ?? []) {
      const name = fromBytes(bytes)
      if (!present.has(name)) await noteGone(scan, joinPath(path, name))
    }
  }
  for (const folder of folders) await walkUpper(scan, dialect, opaque, folder.path, folder.hasBase, isCut)
}

/** Everything below an original folder that the agent's version does not have any more. */
async function walkGone(scan: Scan, path: BytePath): Promise<void> {
  const names = ((await unlessMissing(scan.base.list(path))) ?? []).map(fromBytes)
  await inBatches(names, (name) => noteGone(scan, joinPath(path, name)))
}
async function noteGone(scan: Scan, path: BytePath): Promise<void> {
  const base = await scan.base.lstat(path)
  if (base === null) return
  scan.seen.push({ path, result: null, base })
  if (base.isDirectory()) await walkGone(scan, path)
}

/**
 * A copy has no whiteouts: what the agent touched is what has a ctime after the copy was made (nobody can set
 * one back), and what it deleted is missing from a folder with such a ctime.
 */
async function walkCopy(scan: Scan, sinceMs: number, path: BytePath): Promise<void> {
  const since = BigInt(Math.floor(sinceMs)) * 1_000_000n
  const names = await listOrNote(scan, path)
  const present = new Set(names)
  const folders: BytePath[] = []
  await inBatches(names, async (name) => {
    const at = joinPath(path, name)
    const stat = await scan.result.lstat(at)
    if (stat === null) return
    if (stat.isDirectory()) folders.push(at)
    if (stat.ctimeNs < since) return
    const base = await scan.base.lstat(at)
    scan.seen.push({ path: at, result: stat, base })
    if (!stat.isDirectory() && base?.isDirectory() === true) await walkGone(scan, at)
  })
  const own = await scan.result.lstat(path)
  if (own !== null && own.ctimeNs >= since) {
    for (const bytes of (await unlessMissing(scan.base.list(path))) ?? []) {
      const name = fromBytes(bytes)
      if (present.has(name)) continue
      const base = await scan.base.lstat(joinPath(path, name))
      // Newer than the copy: the user made it meanwhile, the agent never had it to delete.
      if (base !== null && base.ctimeNs < since) await noteGone(scan, joinPath(path, name))
    }
  }
  for (const folder of folders) await walkCopy(scan, sinceMs, folder)
}

async function listOrNote(scan: Scan, path: BytePath): Promise<string[]> {
  const list = async () => (await scan.result.list(path)).map(fromBytes)
  try {
    return await list().catch(async (error: unknown) => {
      if (errorCode(error) !== 'EACCES' || scan.locked === null) throw error
      await scan.locked.open(scan.result, path)
      return list()
    })
  } catch (error) {
    if (['EACCES', 'EPERM'].includes(errorCode(error))) scan.unreadable.push(path)
    // Gone or swapped between listing and opening: the next capture sees what it became.
    else if (!['ENOENT', 'ENOTDIR', 'ELOOP'].includes(errorCode(error))) throw error
    return []
  }
}

export async function inBatches<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  for (let start = 0; start < items.length; start += batch) {
    await Promise.all(items.slice(start, start + batch).map(work))
  }
}

/** Folders that replace the original one whole. Node has no call for extended attributes. */
async function opaqueFolders(upper: string): Promise<ReadonlySet<BytePath>> {
  const pattern = '^(user|trusted)\\.(overlay|fuseoverlayfs)\\.opaque$'
  const args = ['-R', '-P', '-h', '-m', pattern, '--absolute-names', '--', upper]
  const listing = await run('getfattr', args).catch((error: unknown) => {
    throw new OrangeryError('changeset.no_getfattr', 'cannot read the overlay: getfattr is not installed', {
      kind: 'preflight',
      hint: 'Install the package "attr".',
      cause: error,
    })
  })
  const found = new Set<BytePath>()
  const prefix = `# file: ${Buffer.from(upper).toString('latin1')}`
  for (const quoted of listing.stdout.toString('latin1').split('\n')) {
    const line = quoted.replaceAll(/\\([0-7]{3})/g, (_, octal: string) =>
      String.fromCharCode(parseInt(octal, 8)),
    )
    if (line.startsWith(prefix)) found.add(line.slice(prefix.length).replace(/^\//, '') as BytePath)
  }
  return found
}
