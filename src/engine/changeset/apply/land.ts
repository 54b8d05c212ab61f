import { createHash } from 'node:crypto'
import { OrangeryError } from '../../../shared/errors.ts'
import { joinPath, nameOf, parentOf, rootPath, toText, type BytePath } from '../bytePath.ts'
import { createFlags, errorCode, unlessMissing, type Disk, type DiskStat } from '../disk.ts'
import { hasCome, isAt, localIdentity } from './isAt.ts'
import type { Journal } from './journal.ts'
import { entryKey, type Side } from '../manifest.ts'
import { neither } from './neither.ts'
import type { BlobReader } from '../objects/objects.ts'
import type { Operation } from './steps.ts'
import { Tree } from '../objects/tree.ts'

/** Where new contents wait and old ones are kept until all is done: in the root, so that a rename is enough. */
export function stagingName(transaction: string): BytePath {
  return `.orangery-apply-${transaction}` as BytePath
}
export type LandingWork = Pick<Journal, 'transaction' | 'kind' | 'operations' | 'places'>
const zeros = Buffer.alloc(64 * 1024)

/**
 * Carries operations out on the user's files. All contents are written and on disk before the first original is
 * touched; from then on there are only renames, links, folders and modes, each of which can be told from its
 * result whether it happened.
 */
export class Landing implements AsyncDisposable {
  readonly #trees = new Map<string, Tree>()
  readonly #name: BytePath
  readonly #places: ReadonlyMap<string, BytePath>
  readonly #disk: Disk
  readonly #keepsModes = new Map<string, boolean>()
  /** An agent's set-id bits never land; those of the user's own files come back with them. */
  readonly #modes: { readonly new: number; readonly old: number }
  /** Folders that take the place of something else, by `entryKey`. */
  readonly #made: ReadonlySet<string>
  readonly operations: readonly Operation[]

  constructor({ transaction, kind, operations, places }: LandingWork, disk: Disk) {
    this.#name = stagingName(transaction)
    this.#places = new Map(places)
    this.#modes = kind === 'apply' ? { new: 0o777, old: 0o7777 } : { new: 0o7777, old: 0o777 }
    this.#disk = disk
    this.operations = operations
    this.#made = new Set(operations.filter(({ kind }) => kind === 'mkdir').map(entryKey))
    for (const { root } of operations) if (!this.#trees.has(root)) this.#trees.set(root, new Tree(root, disk))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const tree of this.#trees.values()) await tree[Symbol.asyncDispose]()
  }

  /** Writes every new content beside the originals and makes sure it is on disk. */
  async stage(blobs: BlobReader): Promise<void> {
    for (const tree of this.#trees.values()) {
      await this.#makeStaging(tree)
    }
    blobs.askAhead(
      this.operations.flatMap(({ kind, after }) =>
        kind === 'put' && after !== null && 'oid' in after ? [after.oid] : [],
      ),
    )
    for (const [index, operation] of this.operations.entries()) {
      if (operation.kind === 'put') await this.#stageOne(operation, 'after', `n${index}`, blobs)
    }
    await this.#flush()
  }

  /**
   * Somebody may have tidied away what waited and what was kept, which lies in an untracked folder: that nothing
   * waits for a path does not mean that it has landed. The path itself tells, and the store has the contents.
   */
  async restage(blobs: BlobReader): Promise<void> {
    for (const tree of this.#trees.values()) {
      if ((await tree.lstat(this.#stagingIn(tree))) === null) await this.#makeStaging(tree)
    }
    for (const [index, operation] of this.operations.entries()) {
      const { kind, root, path, before, left } = operation
      if (left === true || (kind !== 'put' && kind !== 'remove')) continue
      const tree = this.#tree(root)
      const staged = async (name: string) => (await this.#staged(tree, name)) !== null
      if (kind === 'put' && !(await staged(`n${index}`)) && !(await hasCome(tree, path, operation)))
        await this.#stageAnew(operation, 'after', `n${index}`, blobs)
      else if (before !== null && !(await staged(`o${index}`)) && (await this.#isDone(operation, index)))
        await this.#stageAnew(operation, 'before', `o${index}`, blobs)
    }
  }

  async #isDone(operation: Operation, index: number): Promise<boolean> {
    const tree = this.#tree(operation.root)
    if (operation.kind === 'put') return (await this.#staged(tree, `n${index}`)) === null
    const there = await tree.lstat(operation.path)
    return there === null || (there.isDirectory() && this.#made.has(entryKey(operation)))
  }

  /** Under another name until it is whole: a crash in between must not leave a piece for the whole. */
  async #stageAnew(
    operation: Operation,
    which: 'before' | 'after',
    name: string,
    blobs: BlobReader,
  ): Promise<void> {
    const tree = this.#tree(operation.root)
    const part = `part-${name}`
    await tree.within(this.#stagingIn(tree), async (staging) => {
      await unlessMissing(this.#disk.unlink(staging.at(part)))
      await this.#stageOne(operation, which, part, blobs)
      await this.#disk.rename(staging.at(part), staging.at(name))
    })
  }

  #stagingIn({ root }: Tree): BytePath {
    return joinPath(this.#places.get(root) ?? rootPath, this.#name)
  }

  async #makeStaging(tree: Tree): Promise<void> {
    const parent = parentOf(this.#stagingIn(tree))
    await tree.within(parent, (folder) => this.#disk.mkdir(folder.at(this.#name), 0o700))
  }

  #staged(tree: Tree, name: string): Promise<DiskStat | null> {
    return tree.lstat(joinPath(this.#stagingIn(tree), name))
  }

  async #stageOne(
    operation: Operation,
    which: 'before' | 'after',
    name: string,
    blobs: BlobReader,
  ): Promise<void> {
    const { root, path } = operation
    const { [which]: side } = operation
    const bits = which === 'after' ? this.#modes.new : this.#modes.old
    const tree = this.#tree(root)
    const digest = createHash('sha256')
    if (side?.kind === 'symlink') {
      const target = await blobs.read(side.oid)
      refuseOtherBytes(path, side, digest.update(target).digest('hex'))
      await tree.within(this.#stagingIn(tree), (staging) => this.#disk.symlink(target, staging.at(name)))
      return
    }
    if (side?.kind !== 'file') return
    const { owner } = operation
    await tree.within(this.#stagingIn(tree), async (staging) => {
      const handle = await this.#disk.open(staging.at(name), createFlags, 0o600)
      try {
        let position = 0
        for await (const chunk of blobs.stream(side.oid)) {
          digest.update(chunk)
          // Blocks of zeros stay holes: a sparse file must not fill the disk by landing.
          if (!isHole(chunk)) await this.#disk.write(handle, chunk, position)
          position += chunk.length
        }
        if (position > 0) await this.#disk.truncate(handle, position)
        refuseOtherBytes(path, side, digest.digest('hex'))
        if (owner !== undefined) await this.#disk.chown(handle, owner.uid, owner.gid)
        await this.#disk.chmod(handle, side.mode & bits)
        if (!this.#keepsModes.has(root)) {
          const { mode } = await this.#disk.stat(handle)
          this.#keepsModes.set(root, Number(mode & 0o777n) === (side.mode & 0o777))
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
    await unlessMissing(tree.within(this.#stagingIn(tree), (staging) => this.#disk.unlink(staging.at(name))))
  }

  async clear(): Promise<void> {
    for (const tree of this.#trees.values()) {
      const staging = this.#stagingIn(tree)
      const names = await unlessMissing(tree.list(staging))
      if (names === null) continue
      await tree.within(staging, (folder) =>
        this.#disk.unlinkAll(names.map((name) => folder.at(name.toString('latin1')))),
      )
      await tree.within(parentOf(staging), (parent) => this.#disk.rmdir(parent.at(this.#name)))
      await tree.forget(staging)
    }
  }

  async #do(operation: Operation, index: number): Promise<void> {
    const { kind, path, root, after } = operation
    const tree = this.#tree(root)
    const name = nameOf(path)
    const disk = this.#disk
    switch (kind) {
      case 'remove': {
        if ((await this.#staged(tree, `o${index}`)) !== null) {
          if (await this.#isDone(operation, index)) return
          if (!(await isAt(tree, path, operation.before))) throw neither(operation)
          // A way back was cut off while it had both names.
          return tree.within(parentOf(path), (parent) => disk.unlink(parent.at(name)))
        }
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
        if (there === null) await this.#makeFolder(tree, operation)
        else if (!there.isDirectory()) throw neither(operation)
        return this.#setFolderMode(tree, path, after, this.#modes.new)
      }
      case 'put': {
        if ((await this.#staged(tree, `n${index}`)) === null) {
          if (await hasCome(tree, path, operation)) return
          throw neither(operation)
        }
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
    const kept = await this.#staged(tree, `o${index}`)
    switch (kind) {
      case 'put': {
        // The new content goes back to where it waited: a rollback that is cut off can still turn forward.
        const waits = (await this.#staged(tree, `n${index}`)) !== null
        const there = await tree.lstat(path)
        if (waits && (there !== null || kept === null)) return
        if (!waits && there !== null) {
          if (!(await isAt(tree, path, after))) throw neither(operation)
          await this.#both(tree, path, (parent, staging) =>
            disk.rename(parent.at(name), staging.at(`n${index}`)),
          )
        }
        return kept === null ? undefined : this.#putBack(operation, index)
      }
      case 'remove':
        if (kept === null || (await isAt(tree, path, before))) return
        return this.#putBack(operation, index)
      case 'mkdir': {
        await tree.forget(path)
        return tree
          .within(parentOf(path), (parent) => disk.rmdir(parent.at(name)))
          .catch((error: unknown) => {
            if (!['ENOENT', 'ENOTEMPTY', 'EEXIST', 'ENOTDIR', 'ELOOP'].includes(errorCode(error))) throw error
          })
      }
      case 'rmdir': {
        const there = await tree.lstat(path)
        if (there === null) await this.#makeFolder(tree, operation)
        else if (!there.isDirectory()) throw neither(operation)
        return this.#setFolderMode(tree, path, before, this.#modes.old)
      }
      case 'open':
      case 'chmod':
        return this.#setFolderMode(tree, path, before, this.#modes.old)
    }
  }

  /** What was kept comes back to where it was, and never over what somebody has written there meanwhile. */
  async #putBack(operation: Operation, index: number): Promise<void> {
    const { path, root, before } = operation
    const tree = this.#tree(root)
    const [name, old] = [nameOf(path), `o${index}`]
    if ((await tree.lstat(path)) !== null) throw neither(operation)
    await this.#both(tree, path, async (parent, staging) => {
      try {
        // A rename would replace what came this moment; a link does not. Of a link itself macOS would take its target.
        if (before?.kind === 'file') {
          await this.#disk.link(staging.at(old), parent.at(name))
          return await this.#disk.unlink(staging.at(old))
        }
      } catch (error) {
        if (errorCode(error) === 'EEXIST') throw neither(operation)
        if (!refusesLinks.has(errorCode(error))) throw error
      }
      await this.#disk.rename(staging.at(old), parent.at(name))
    })
  }

  /** The old content stays reachable under a second name; where links are refused, it moves aside. */
  async #keepOld(tree: Tree, path: BytePath, index: number): Promise<void> {
    await this.#both(tree, path, async (parent, staging) => {
      try {
        await this.#disk.link(parent.at(nameOf(path)), staging.at(`o${index}`))
      } catch (error) {
        if (errorCode(error) === 'EEXIST') return
        if (!refusesLinks.has(errorCode(error))) throw error
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
      const kept = await this.#staged(tree, `o${this.operations.indexOf(operation)}`)
      if (kept !== null) return
    }
    if (!(await isAt(tree, path, before))) throw neither(operation)
  }

  async #makeFolder(tree: Tree, { path, owner }: Operation): Promise<void> {
    await tree.within(parentOf(path), (parent) => this.#disk.mkdir(parent.at(nameOf(path)), 0o700))
    if (owner !== undefined)
      await tree.within(path, ({ handle }) => this.#disk.chown(handle, owner.uid, owner.gid))
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
      tree.within(this.#stagingIn(tree), (staging) => work(parent, staging)),
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
const refusesLinks = new Set(['EPERM', 'EACCES', 'EMLINK', 'ENOTSUP', 'EOPNOTSUPP'])

function isHole(chunk: Buffer): boolean {
  return chunk.length >= 4096 && chunk.length <= zeros.length && chunk.equals(zeros.subarray(0, chunk.length))
}
type FolderLike = { at(name: string): Buffer }

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
