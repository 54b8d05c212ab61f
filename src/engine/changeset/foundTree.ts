import { run } from '../base/process.ts'
import { fromBytes, nameOf, parentOf, rootPath, type BytePath } from './bytePath.ts'
import type { DiskStat } from './disk.ts'
import type { QuickTree } from './quickTree.ts'

/** What tells a change without its content. */
export type Glance = Pick<DiskStat, 'mode' | 'size' | 'rdev' | 'isDirectory' | 'isCharacterDevice'>

const kinds: Readonly<Record<string, bigint>> = {
  f: 0o100000n,
  d: 0o040000n,
  l: 0o120000n,
  p: 0o010000n,
  s: 0o140000n,
  b: 0o060000n,
}

/** A whole tree as `find` saw it: one process instead of a call per name and folder. */
export class FoundTree {
  readonly root: string
  readonly #names = new Map<BytePath, BytePath[]>()
  readonly #stats = new Map<BytePath, Glance>()
  readonly #exact: QuickTree

  private constructor(root: string, exact: QuickTree) {
    this.root = root
    this.#exact = exact
  }

  /** Null where there is no `find` that says what we need. It walks by descriptor and follows no link. */
  static async read(exact: QuickTree): Promise<FoundTree | null> {
    const args = ['-P', exact.root, '-mindepth', '1', '-printf', '%y %m %s %P\\0']
    const said = await run('find', args).catch(() => null)
    // 1: some folder is closed to us, or was gone when its turn came.
    if (said === null || (said.code !== 0 && (said.code !== 1 || said.stdout.length === 0))) return null
    const tree = new FoundTree(exact.root, exact)
    const text = fromBytes(said.stdout)
    for (let at = 0; at < text.length;) {
      const end = text.indexOf('\0', at)
      tree.#add(text.slice(at, end))
      at = end + 1
    }
    return tree
  }

  #add(line: string): void {
    const afterMode = line.indexOf(' ', 2)
    const afterSize = line.indexOf(' ', afterMode + 1)
    const path = line.slice(afterSize + 1) as BytePath
    const parent = parentOf(path)
    const names = this.#names.get(parent)
    if (names === undefined) this.#names.set(parent, [nameOf(path) as BytePath])
    else names.push(nameOf(path) as BytePath)
    const kind = kinds[line.charAt(0)]
    if (kind === undefined) return
    const isDirectory = line.startsWith('d')
    this.#stats.set(path, {
      mode: kind | BigInt(parseInt(line.slice(2, afterMode), 8)),
      size: BigInt(line.slice(afterMode + 1, afterSize)),
      rdev: 0n,
      isDirectory: () => isDirectory,
      isCharacterDevice: () => false,
    })
  }

  /** A device may be the mark of a deletion, which only its number tells: that is looked up. */
  lstat(path: BytePath): Glance | null {
    return path === rootPath ? this.#exact.lstat(path) : (this.#stats.get(path) ?? this.#exact.lstat(path))
  }

  list(path: BytePath): BytePath[] {
    return this.#names.get(path) ?? []
  }
}
