import type { CopiedTree } from '../../base/copiedTree.ts'
import { nameOf, parentOf, rootPath, type BytePath } from '../bytePath.ts'
import type { DiskStat } from '../disk.ts'

type Folders = { lstat(path: BytePath): DiskStat | null }

/** Tells whether what the user has at a path may be something else than what the agent started from. */
export class HostDrift {
  readonly #host: Folders
  readonly #startNs: bigint
  readonly #copied: CopiedTree | null
  readonly #inodeOf: (folder: BytePath) => string | undefined
  readonly #moved = new Map<BytePath, boolean>()

  /**
   * `copied`: where the agent works on a copy, what that was made from. `inodeOf`: which folder the user had at a path
   * when that was first looked at.
   */
  constructor(
    host: Folders,
    startNs: bigint,
    copied: CopiedTree | null,
    inodeOf: (folder: BytePath) => string | undefined = () => undefined,
  ) {
    this.#host = host
    this.#startNs = startNs
    this.#copied = copied
    this.#inodeOf = inodeOf
  }

  /** `sinceNs`: it was not among what the agent had left by then. */
  mayHaveChanged(
    path: BytePath,
    host: DiskStat | null,
    result: DiskStat | null,
    sinceNs: bigint | null = null,
  ): boolean {
    if (host === null)
      return result !== null && !result.isDirectory() && this.#mayBeGone(path, result, sinceNs)
    if (host.isDirectory()) return false
    return host.ctimeNs >= this.#startNs || this.#isInMovedFolder(path)
  }

  /** What comes with a folder that is renamed keeps a ctime of before the start. */
  #isInMovedFolder(path: BytePath): boolean {
    const folder = parentOf(path)
    if (folder === rootPath) return false
    const known = this.#moved.get(folder)
    if (known !== undefined) return known
    const moved = this.#isInMovedFolder(folder) || this.#isMoved(folder)
    this.#moved.set(folder, moved)
    return moved
  }
  #isMoved(folder: BytePath): boolean {
    const stat = this.#host.lstat(folder)
    if (stat === null || stat.ctimeNs < this.#startNs) return false
    if (this.#copied !== null) return this.#copied.get(folder)?.original !== String(stat.ino)
    const inode = this.#inodeOf(folder)
    if (inode !== undefined && inode !== String(stat.ino)) return true
    // Names that come and go in a folder set both of its times; its own new name sets one.
    return stat.mtimeNs !== stat.ctimeNs
  }

  /** Nothing is there: the user may have deleted or renamed what the agent had written to. */
  #mayBeGone(path: BytePath, result: DiskStat, sinceNs: bigint | null): boolean {
    if (this.#copied !== null) return this.#copied.get(parentOf(path))?.names.has(nameOf(path)) === true
    // Over an overlay what was gone before the agent wrote was gone for it, too. What it renames brings an older
    // birth along: only the last look tells that it came here since, and was not what an apply of ours or the user
    // has taken away before that.
    const writtenNs = [result.birthtimeNs, sinceNs ?? 0n].reduce(
      (latest, each) => (each > latest ? each : latest),
      this.#startNs,
    )
    for (let folder = parentOf(path); ; folder = parentOf(folder)) {
      const stat = this.#host.lstat(folder)
      if (stat !== null || folder === rootPath) return stat !== null && stat.ctimeNs >= writtenNs
    }
  }
}
