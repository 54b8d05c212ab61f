import { createHash } from 'node:crypto'
import { OrangeryError } from '../../shared/errors.ts'
import { nameOf, namedPath, parentOf, rootPath, toText, type BytePath } from './bytePath.ts'
import { contentOf } from './content.ts'
import { createFlags, errorCode, unlessMissing, type Disk, type DiskStat } from './disk.ts'
import type { Journal } from './journal.ts'
import type { Side } from './manifest.ts'
import type { BlobReader } from './objects.ts'
import type { Operation } from './steps.ts'
import { Tree } from './tree.ts'

/** Where new contents wait and old ones are kept until all is done: in the root, so that a rename is enough. */
export function stagingName(transaction: string): BytePath {
  return `.orangery-apply-${transaction}` as BytePath
}
export type LandingWork = Pick<Journal, 'transaction' | 'kind' | 'operations'>
const zeros = Buffer.alloc(64 * 1024)

/**
 * Carries operations out on the user's files. All contents are written and on disk before the first original is
 * touched; from then on there are only renames, links, folders and modes, each of which can be told from its
 * result whether it happened.
 */
export class Landing implements AsyncDisposable {
  readonly #trees = new Map<string, Tree>()
  readonly #staging: BytePath
  readonly #disk: Disk
  readonly #keepsModes = new Map<string, boolean>()
  /** An agent's set-id bits never land; those of the user's own files come back with them. */
  readonly #modes: { readonly new: number; readonly old: number }
  readonly operations: readonly Operation[]

  constructor({ transaction, kind, operations }: LandingWork, disk: Disk) {
    this.#staging = stagingName(transaction)
    this.#modes = kind === 'apply' ? { new: 0o777, old: 0o7777 } : { new: 0o7777, old: 0o777 }
    this.#disk = disk
    this.operations = operations
    for (const { root } of operations) if (!this.#trees.has(root)) this.#trees.set(root, new Tree(root, disk))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const tree of this.#trees.values()) await tree[Symbol.asyncDispose]()
  }

  /** Writes every new content beside the originals and makes sure it is on disk. */
  async stage(blobs: BlobReader): Promise<void> {
    for (const tree of this.#trees.values()) {
      await tree.within(rootPath, (root) => this.#disk.mkdir(root.at(this.#staging), 0o700))
    }
    blobs.askAhead(
      this.operations.flatMap(({ kind, after }) =>
        kind === 'put' && after !== null && 'oid' in after ? [after.oid] : [],
      ),
    )
    for (const [index, operation] of this.operations.entries()) {
      if (operation.kind === 'put') await this.#stageOne(operation, index, blobs)
    }
    await this.#flush()
  }

  async #stageOne(operation: Operation, index: number, blobs: BlobReader): Promise<void> {
    const { root, after, path } = operation
    const tree = this.#tree(root)
    const digest = createHash('sha256')
    if (after?.kind === 'symlink') {
      const target = await blobs.read(after.oid)
      refuseOtherBytes(path, after, digest.update(target).digest('hex'))
      await tree.within(this.#staging, (staging) => this.#disk.symlink(target, staging.at(`n${index}`)))
      return
    }
    if (after?.kind !== 'file') return
    const keepsOwner = operation.before !== null && process.getuid?.() === 0
    const owner = keepsOwner ? await tree.lstat(path) : null
    await tree.within(this.#staging, async (staging) => {
      const handle = await this.#disk.open(staging.at(`n${index}`), createFlags, 0o600)
      try {
        let position = 0
        for await (const chunk of blobs.stream(after.oid)) {
          digest.update(chunk)
          // Blocks of zeros stay holes: a sparse file must not fill the disk by landing.
          if (!isHole(chunk)) await this.#disk.write(handle, chunk, position)
          position += chunk.length
        }
        if (position > 0) await this.#disk.truncate(handle, position)
        refuseOtherBytes(path, after, digest.digest('hex'))
        if (owner !== null) {
          await this.#disk.chown(handle, Number(owner.uid), Number(owner.gid))
        }
        await this.#disk.chmod(handle, after.mode & this.#modes.new)
        if (!this.#keepsModes.has(root)) {
          const { mode } = await this.#disk.stat(handle)
          this.#keepsModes.set(root, Number(mode & 0o777n) === (after.mode & 0o777))
        }
      } finally {
        await this.#disk.close(handle)
      }
    })
  }

  /** Roots on a filesystem that gives every file the mode it likes, as those of other systems do. */
  get modeless(): string[] {
    return [...this.#keepsModes].filter(([, keeps]) => !keeps).map(([root]) => root)
  }

  /** Does what is not done yet. Throws at the first path that is neither old nor new. */
  async forward(): Promise<void> {
    for (const [index, operation] of this.operations.entries())
      if (operation.left !== true) await this.#do(operation, index)
    await this.#flush()
  }

  /** Takes back what was done, last first. */
  async back(): Promise<void> {
    for (const [index, operation] of [...this.operations.entries()].toReversed())
      if (operation.left !== true) await this.#undo(operation, index)
    await this.#flush()
  }

  /** What was kept of a path is not the old content any more: a person has said so. */
  async forgetOld(operation: Operation): Promise<void> {
    const name = `o${this.operations.indexOf(operation)}`
    const tree = this.#tree(operation.root)
    await unlessMissing(tree.within(this.#staging, (staging) => this.#disk.unlink(staging.at(name))))
  }

  async clear(): Promise<void> {
    for (const tree of this.#trees.values()) {
      const names = await unlessMissing(tree.list(this.#staging))
      if (names === null) continue
      await tree.within(this.#staging, (staging) =>
        this.#disk.unlinkAll(names.map((name) => staging.at(name.toString('latin1')))),
      )
      await tree.within(rootPath, (root) => this.#disk.rmdir(root.at(this.#staging)))
      await tree.forget(this.#staging)
    }
  }

  async #do(operation: Operation, index: number): Promise<void> {
    const { kind, path, root, after } = operation
    const tree = this.#tree(root)
    const name = nameOf(path)
    const disk = this.#disk
    switch (kind) {
      case 'remove': {
        // Kept already: what lies at the path now is the work of a later operation.
        if ((await tree.lstat(`${this.#staging}/o${index}` as BytePath)) !== null) return
        await this.#expectOld(operation)
        return this.#both(tree, path, (parent, staging) =>
          disk.rename(parent.at(name), staging.at(`o${index}`)),
        )
      }
      case 'rmdir': {
        await tree.forget(path)
        return tree
          .within(parentOf(path), (parent) => disk.rmdir(parent.at(name)))
          .catch((error: unknown) => {
            // Files of the user in it keep a folder alive; nothing of the agent's depends on it.
            if (!['ENOENT', 'ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(errorCode(error))) throw error
          })
      }
      case 'mkdir': {
        const there = await tree.lstat(path)
        if (there === null) await tree.within(parentOf(path), (parent) => disk.mkdir(parent.at(name), 0o700))
        else if (!there.isDirectory()) throw neither(operation)
        return this.#setFolderMode(tree, path, after, this.#modes.new)
      }
      case 'put': {
        const waiting = await tree.lstat(`${this.#staging}/n${index}` as BytePath)
        if (waiting === null) return
        if (operation.before === null) {
          if ((await tree.lstat(path)) !== null) throw neither(operation)
        } else {
          await this.#expectOld(operation)
          await this.#keepOld(tree, path, index)
        }
        return this.#both(tree, path, (parent, staging) =>
          disk.rename(staging.at(`n${index}`), parent.at(name)),
        )
      }
      case 'open':
      case 'chmod':
        return this.#setFolderMode(tree, path, after, this.#modes.new)
    }
  }

  async #undo(operation: Operation, index: number): Promise<void> {
    const { kind, path, root, before, after } = operation
    const tree = this.#tree(root)
    const name = nameOf(path)
    const disk = this.#disk
    const kept = (await tree.lstat(`${this.#staging}/o${index}` as BytePath)) !== null
    switch (kind) {
      case 'put': {
        // The new content goes back to where it waited: a rollback that is cut off can still turn forward.
        const waits = (await tree.lstat(`${this.#staging}/n${index}` as BytePath)) !== null
        const there = await tree.lstat(path)
        if (waits && (there !== null || !kept)) return
        if (!waits && there !== null) {
          if (!(await isAt(tree, path, after))) throw neither(operation)
          await this.#both(tree, path, (parent, staging) =>
            disk.rename(parent.at(name), staging.at(`n${index}`)),
          )
        }
        if (!kept) return
        return this.#both(tree, path, (parent, staging) =>
          disk.rename(staging.at(`o${index}`), parent.at(name)),
        )
      }
      case 'remove':
        if (!kept) return
        return this.#both(tree, path, (parent, staging) =>
          disk.rename(staging.at(`o${index}`), parent.at(name)),
        )
      case 'mkdir': {
        await tree.forget(path)
        return tree
          .within(parentOf(path), (parent) => disk.rmdir(parent.at(name)))
          .catch((error: unknown) => {
            if (!['ENOENT', 'ENOTEMPTY', 'EEXIST', 'ENOTDIR', 'ELOOP'].includes(errorCode(error))) throw error
          })
      }
      case 'rmdir':
        if ((await tree.lstat(path)) === null) {
          await tree.within(parentOf(path), (parent) => disk.mkdir(parent.at(name), 0o700))
        }
        return this.#setFolderMode(tree, path, before, this.#modes.old)
      case 'open':
      case 'chmod':
        return this.#setFolderMode(tree, path, before, this.#modes.old)
    }
  }

  /** The old content stays reachable under a second name; where links are refused, it moves aside. */
  async #keepOld(tree: Tree, path: BytePath, index: number): Promise<void> {
    await this.#both(tree, path, async (parent, staging) => {
      try {
        await this.#disk.link(parent.at(nameOf(path)), staging.at(`o${index}`))
      } catch (error) {
        if (errorCode(error) === 'EEXIST') return
        if (!['EPERM', 'EACCES', 'EMLINK', 'ENOTSUP', 'EOPNOTSUPP'].includes(errorCode(error))) throw error
        await this.#disk.rename(parent.at(nameOf(path)), staging.at(`o${index}`))
      }
    })
  }

  async #expectOld(operation: Operation): Promise<void> {
    const { path, before, identity } = operation
    const tree = this.#tree(operation.root)
    const stat = await tree.lstat(path)
    if (stat !== null && identity !== null && localIdentity(stat) === identity) return
    if (stat === null && operation.kind === 'put') {
      // Moved aside by us before a crash, where links are refused.
      const kept = await tree.lstat(`${this.#staging}/o${this.operations.indexOf(operation)}` as BytePath)
      if (kept !== null) return
    }
    if (!(await isAt(tree, path, before))) throw neither(operation)
  }

  async #setFolderMode(tree: Tree, path: BytePath, side: Side | null, bits: number): Promise<void> {
    if (side?.kind !== 'directory') return
    await tree.within(parentOf(path), (parent) =>
      this.#disk.chmodFolder(parent.at(nameOf(path)), side.mode & bits),
    )
  }

  #both(
    tree: Tree,
    path: BytePath,
    work: (parent: FolderLike, staging: FolderLike) => Promise<void>,
  ): Promise<void> {
    return tree.within(parentOf(path), (parent) =>
      tree.within(this.#staging, (staging) => work(parent, staging)),
    )
  }

  async #flush(): Promise<void> {
    for (const tree of this.#trees.values()) {
      if (await this.#disk.flush(tree.root)) continue
      await tree.within(rootPath, (root) => this.#disk.sync(root.handle))
    }
  }

  #tree(root: string): Tree {
    const tree = this.#trees.get(root)
    if (tree === undefined) throw new Error(`no tree for ${root}`)
    return tree
  }
}
function isHole(chunk: Buffer): boolean {
  return chunk.length >= 4096 && chunk.length <= zeros.length && chunk.equals(zeros.subarray(0, chunk.length))
}
type FolderLike = { at(name: string): Buffer }

/** What does not change when a file gets a second name. */
export function localIdentity(stat: DiskStat): string {
  return [stat.dev, stat.ino, stat.size, stat.mode, stat.mtimeNs].join(':')
}

/** Whether exactly this lies at a path, byte for byte. */
export async function isAt(tree: Tree, path: BytePath, side: Side | null): Promise<boolean> {
  const stat = await tree.lstat(path)
  if (stat === null || side === null) return stat === null && side === null
  if (side.kind === 'directory') return stat.isDirectory()
  if (side.kind === 'symlink') {
    if (!stat.isSymbolicLink()) return false
    const target = await tree.within(parentOf(path), (folder) => tree.disk.readlink(folder.at(nameOf(path))))
    return createHash('sha256').update(target).digest('hex') === side.sha256
  }
  if (side.kind !== 'file' || !stat.isFile() || Number(stat.size) !== side.size) return false
  const digest = createHash('sha256')
  for await (const chunk of contentOf(tree, path)) digest.update(chunk)
  return digest.digest('hex') === side.sha256
}

function refuseOtherBytes(path: BytePath, side: Side, sha256: string): void {
  if ('sha256' in side && side.sha256 === sha256) return
  throw new OrangeryError(
    'changeset.bytes_differ',
    `cannot land ${toText(path)}: the stored bytes are not the reviewed ones`,
    {
      kind: 'refused',
      hint: 'Nothing was changed. The store under the data folder is damaged or was tampered with.',
    },
  )
}

type Place = { readonly root: string; readonly path: string; readonly path_b64?: string }

/** Neither what was there nor what should be: somebody else wrote it meanwhile, and a person has to say. */
export class NeitherOldNorNew extends OrangeryError {
  readonly place: Place

  constructor(place: Place) {
    super(
      'changeset.neither_old_nor_new',
      `stopped at ${place.path}: it is neither what it was nor what it should become`,
      {
        kind: 'busy',
        hint: `Somebody wrote ${place.path} meanwhile. Look at it, then say whose it shall be with \`orangery changeset settle\`.`,
        details: place,
      },
    )
    this.place = place
  }
}
function neither({ root, path }: Operation): NeitherOldNorNew {
  return new NeitherOldNorNew({ root, ...namedPath(path) })
}
