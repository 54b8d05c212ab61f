import { platform } from 'node:os'
import { closeSync } from 'node:fs'
import { nameOf, parentOf, rootPath, toBytes, type BytePath } from '../bytePath.ts'
import { folderFlags, realDisk, unlessMissing, type Descriptor, type Disk, type DiskStat } from '../disk.ts'

/** An open folder. What lies in it is named through the descriptor, so that nobody can swap a parent under us. */
export class Folder {
  readonly handle: Descriptor
  readonly #prefix: Buffer

  constructor(handle: Descriptor, path: Buffer) {
    this.handle = handle
    // macOS has no such names; there the path was walked name by name and the swap window is documented.
    this.#prefix =
      platform() === 'linux' ? Buffer.from(`/proc/self/fd/${handle}/`) : Buffer.concat([path, slash])
  }
  /** Where `name` lies, for one system call that does not follow a final symlink. */
  at(name: string): Buffer {
    return Buffer.concat([this.#prefix, toBytes(name)])
  }
}
/** `users` counts from the moment somebody asks, so that a folder is never closed under a waiting one. */
type Slot = { readonly folder: Promise<Folder>; users: number }
const slash = Buffer.from('/')
const mostOpenFolders = 128

/**
 * A directory tree walked by descriptor. A forged ancestor symlink would lead us out of the root: every parent
 * is opened with O_NOFOLLOW from its own parent, never by path. (escape: apply-parent-swap)
 */
export class Tree implements AsyncDisposable {
  readonly #open = new Map<BytePath, Slot>()
  readonly root: string
  readonly disk: Disk

  constructor(root: string, disk: Disk = realDisk) {
    this.root = root
    this.disk = disk
  }

  /** Runs `work` with the folder open. Throws ENOENT, ENOTDIR or ELOOP where the path does not lead to one. */
  async within<T>(path: BytePath, work: (folder: Folder) => Promise<T>): Promise<T> {
    const slot = this.#slot(path)
    slot.users += 1
    try {
      return await work(await slot.folder)
    } finally {
      slot.users -= 1
      if (this.#open.size > mostOpenFolders) await this.#evict()
    }
  }

  lstat(path: BytePath): Promise<DiskStat | null> {
    if (path === '') return unlessMissing(this.disk.lstat(Buffer.from(this.root)))
    return unlessMissing(this.within(parentOf(path), (folder) => this.disk.lstat(folder.at(nameOf(path)))))
  }

  list(path: BytePath): Promise<Buffer[]> {
    return this.within(path, (folder) => this.disk.list(folder.at('.')))
  }

  openFile(path: BytePath, flags: number, mode?: number): Promise<Descriptor> {
    return this.within(parentOf(path), (folder) => this.disk.open(folder.at(nameOf(path)), flags, mode))
  }

  /** Forgets descriptors at and below a folder that is about to go. */
  async forget(path: BytePath): Promise<void> {
    for (const [known, slot] of this.#open) {
      if (known !== path && !known.startsWith(`${path}/`)) continue
      this.#open.delete(known)
      await slot.folder.then(
        (open) => this.disk.close(open.handle),
        () => {},
      )
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const open = [...this.#open.values()]
    this.#open.clear()
    await Promise.all(open.map((slot) => slot.folder.then((each) => closeSync(each.handle)).catch(() => {})))
  }

  #slot(path: BytePath): Slot {
    const known = this.#open.get(path)
    if (known !== undefined) {
      // Last used goes to the end, so that eviction takes the oldest.
      this.#open.delete(path)
      this.#open.set(path, known)
      return known
    }
    const slot: Slot = { folder: this.#openFolder(path), users: 0 }
    this.#open.set(path, slot)
    slot.folder.catch(() => {
      if (this.#open.get(path) === slot) this.#open.delete(path)
    })
    return slot
  }

  async #openFolder(path: BytePath): Promise<Folder> {
    const whole = Buffer.concat([
      Buffer.from(this.root),
      path === '' ? Buffer.alloc(0) : slash,
      toBytes(path),
    ])
    if (path === rootPath) return new Folder(await this.disk.open(this.root, folderFlags), whole)
    const handle = await this.within(parentOf(path), (parent) =>
      this.disk.open(parent.at(nameOf(path)), folderFlags),
    )
    return new Folder(handle, whole)
  }

  async #evict(): Promise<void> {
    for (const [path, slot] of this.#open) {
      if (this.#open.size <= mostOpenFolders) return
      if (slot.users > 0 || path === rootPath) continue
      this.#open.delete(path)
      await slot.folder.then(
        (folder) => this.disk.close(folder.handle),
        () => {},
      )
    }
  }
}
