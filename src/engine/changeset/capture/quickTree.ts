import { platform } from 'node:os'
import { nameOf, parentOf, rootPath, toBytes, type BytePath } from '../bytePath.ts'
import { errorCode, folderFlags, readFlags, realDisk, type DirectCalls, type DiskStat } from '../disk.ts'

const mostOpenFolders = 64
/** The system takes paths of 4096 bytes, the root's own included. */
const longestPath = 2048

/** A tree read by descriptor like `Tree`, in slices of direct calls instead of one promise per call. Reads only. */
export class QuickTree implements Disposable {
  readonly root: string
  readonly #open = new Map<BytePath, number>()
  readonly #prefix: string | null
  readonly #calls: DirectCalls

  /** `ours`: nobody we distrust can swap a folder in it for a link, so that paths will do, at half the calls. */
  constructor(
    root: string,
    whose: 'ours' | 'theirs' = 'theirs',
    { direct }: { readonly direct: DirectCalls } = realDisk,
  ) {
    this.root = root
    this.#calls = direct
    this.#prefix = whose === 'ours' ? `${Buffer.from(root).toString('latin1')}/` : null
  }

  [Symbol.dispose](): void {
    const open = [...this.#open.values()]
    this.#open.clear()
    for (const descriptor of open) this.#calls.close(descriptor)
  }

  lstat(path: BytePath): DiskStat | null {
    try {
      const at = path === rootPath ? this.root : this.#at(path)
      return this.#calls.lstat(at)
    } catch (error) {
      if (isMissing(error)) return null
      throw error
    }
  }

  /** Throws where the path leads to no folder, or to one we may not read. */
  list(path: BytePath): BytePath[] {
    const isNear = this.#prefix !== null && path.length < longestPath
    const at = isNear ? toBytes(this.#prefix + path) : this.#within(this.#folder(path), '.', path)
    return this.#calls.list(at) as BytePath[]
  }

  readlink(path: BytePath): Buffer {
    return this.#calls.readlink(this.#at(path))
  }

  /** The whole of a regular file; null where it is none. A pipe is not waited for, a link not followed. */
  read(path: BytePath): Buffer | null {
    const descriptor = this.#calls.open(this.#at(path), readFlags)
    try {
      const stat = this.#calls.stat(descriptor)
      if (!stat.isFile()) return null
      let buffer = Buffer.allocUnsafe(stat.size + 1)
      let length = 0
      for (;;) {
        const count = this.#calls.read(descriptor, buffer, length)
        if (count === 0) return buffer.subarray(0, length)
        length += count
        if (length === buffer.length) buffer = Buffer.concat([buffer, Buffer.allocUnsafe(buffer.length)])
      }
    } finally {
      this.#calls.close(descriptor)
    }
  }

  #at(path: BytePath): Buffer {
    if (this.#prefix !== null && path.length < longestPath) return toBytes(this.#prefix + path)
    const parent = parentOf(path)
    return this.#within(this.#folder(parent), nameOf(path), parent)
  }

  #within(descriptor: number, name: string, folder: BytePath): Buffer {
    if (platform() === 'linux') return Buffer.from(`/proc/self/fd/${descriptor}/${name}`, 'latin1')
    return Buffer.concat([Buffer.from(`${this.root}/`), toBytes(folder === '' ? name : `${folder}/${name}`)])
  }

  #folder(path: BytePath): number {
    const known = this.#open.get(path)
    if (known !== undefined) return known
    const opened = this.#calls.open(path === rootPath ? this.root : this.#at(path), folderFlags)
    this.#open.set(path, opened)
    if (this.#open.size > mostOpenFolders) this.#closeOldest(path)
    return opened
  }

  #closeOldest(keep: BytePath): void {
    for (const [path, descriptor] of this.#open) {
      if (path === rootPath || path === keep) continue
      this.#open.delete(path)
      this.#calls.close(descriptor)
      return
    }
  }
}

export function isMissing(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR', 'ELOOP'].includes(errorCode(error))
}
