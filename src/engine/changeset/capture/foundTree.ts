import { spawn } from 'node:child_process'
import { buffer } from 'node:stream/consumers'
import { minimalEnv } from '../../base/process.ts'
import { fromBytes, nameOf, parentOf, rootPath, type BytePath } from '../bytePath.ts'
import type { DiskStat } from '../disk.ts'
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

/** A tree as `find` saw it, or those of its paths that were asked for: no call per name and folder. */
export class FoundTree {
  readonly root: string
  readonly #names = new Map<BytePath, BytePath[]>()
  readonly #stats = new Map<BytePath, Glance>()
  readonly #exact: QuickTree
  readonly #isWhole: boolean

  constructor(exact: QuickTree, listing: Buffer, isWhole: boolean) {
    this.root = exact.root
    this.#exact = exact
    this.#isWhole = isWhole
    const text = fromBytes(listing)
    for (let at = 0; at < text.length;) {
      const end = text.indexOf('\0', at)
      this.#add(text.slice(at, end))
      at = end + 1
    }
  }

  #add(line: string): void {
    const afterMode = line.indexOf(' ', 2)
    const afterSize = line.indexOf(' ', afterMode + 1)
    const path = line.slice(afterSize + 1 + '..'.length) as BytePath
    if (this.#isWhole) {
      const parent = parentOf(path)
      const names = this.#names.get(parent)
      if (names === undefined) this.#names.set(parent, [nameOf(path) as BytePath])
      else names.push(nameOf(path) as BytePath)
    }
    const kind = kinds[line.charAt(0)]
    if (kind === undefined) return
    const isDirectory = line.startsWith('d')
    this.#stats.set(path, {
      mode: kind | BigInt(parseInt(line.slice(2, afterMode), 8)),
      size: BigInt(line.slice(afterMode + 1, afterSize)),
      rdev: 0n,
      isDirectory: isDirectory ? yes : no,
      isCharacterDevice: no,
    })
  }

  /** A device may be the mark of a deletion, which only its number tells: that is looked up. */
  lstat(path: BytePath): Glance | null {
    return path === rootPath ? this.#exact.lstat(path) : (this.#stats.get(path) ?? this.#exact.lstat(path))
  }

  list(path: BytePath): BytePath[] {
    return this.#isWhole ? (this.#names.get(path) ?? []) : this.#exact.list(path)
  }
}
const yes = () => true
const no = () => false

// One shell, since starting a process stops ours for as long as it takes to copy its page tables. The first `find` walks
// the upper layer by descriptor, follows no link, and hands each name on to the second, which looks it up in the original.
const script = `command -v getfattr >/dev/null || exit 9
exec 5>&1
{ getfattr -R -P -h -m "$3" --absolute-names -- "$1" 2>/dev/null; } >&2 3>&- 5>&- &
cd -- "$1" && find -P . -mindepth 1 -printf '%y %m %s %p\\0' -fprintf /dev/fd/4 '%p\\0' 4>&1 >&5 2>/dev/null 3>&- 5>&- |
  { cd -- "$2" && find -P -files0-from - -maxdepth 0 -printf '%y %m %s %p\\0' >&3 2>/dev/null 3>&- 5>&-; }
wait`

export type Found = {
  readonly result: FoundTree
  readonly base: FoundTree
  /** What `getfattr` said of the upper layer. */
  readonly attributes: Buffer
}

/** Both sides of an overlay at once; null where there is no `find` or `getfattr` that says what we need. */
export async function findBoth(result: QuickTree, base: QuickTree, attribute: string): Promise<Found | null> {
  const child = spawn('sh', ['-c', script, 'sh', result.root, base.root, attribute], {
    env: minimalEnv,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  })
  const started = new Promise<boolean>((resolve) => {
    child.once('error', () => resolve(false))
    child.once('close', (code) => resolve(code !== null && code !== 9 && code < 126))
  })
  const [upper, attributes, lower] = await Promise.all(
    [child.stdout, child.stderr, child.stdio[3] as NodeJS.ReadableStream].map((stream) =>
      buffer(stream as AsyncIterable<Buffer>).catch(() => Buffer.alloc(0)),
    ),
  )
  if (!(await started) || upper === undefined || lower === undefined || attributes === undefined) return null
  return {
    result: new FoundTree(result, upper, true),
    base: new FoundTree(base, lower, false),
    attributes,
  }
}
