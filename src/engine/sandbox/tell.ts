import { constants, fstatSync } from 'node:fs'
import { open, readdir, readlink, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { PerMinute } from '../base/perMinute.ts'
import { run } from '../base/process.ts'
import type { Peer } from '../base/sandbox.ts'
import type { ProcessTree } from './tree.ts'

// Node does not name it: a descriptor that stands for a file and can neither read nor write it.
const pathOnly = 0o10000000
const mostLines = 60
const mostRemembered = 256
/** A program that repeats itself need not be told again before it has had time to be read. */
const quietMs = 10_000

/** What tells one open file from another. */
type Identity = { readonly dev: number; readonly ino: number }
const isSame = (a: Identity, b: Identity): boolean => a.dev === b.dev && a.ino === b.ino

/** What the whole sandbox started with. */
export type Given = {
  readonly stderr: Identity
  /** Where nothing is to be said: data and protocols go there, or somebody else speaks. */
  readonly spared: readonly Identity[]
}

/** On a terminal all three are one, and it is spoken on. */
export function givenTo(io: {
  readonly stdin: number
  readonly stdout: number
  readonly stderr: number
  readonly isAnnotated?: boolean
}): Given {
  const stderr: Identity = fstatSync(io.stderr)
  const others: readonly Identity[] = [io.stdin, io.stdout].map((number) => fstatSync(number))
  if (io.isAnnotated === true) return { stderr, spared: [stderr, ...others] }
  return { stderr, spared: others.filter((given) => !isSame(given, stderr)) }
}

/**
 * Speaks to single programs inside on their own stderr: curl, git and others show nothing but a number of what the
 * proxy said, and whoever reads them reads this too.
 */
export class ProgramVoice {
  readonly #tree: ProcessTree
  readonly #given: Given
  readonly #lines = new PerMinute(mostLines)
  readonly #said = new Map<string, number>()

  constructor(tree: ProcessTree, given: Given) {
    this.#tree = tree
    this.#given = given
  }

  async tell(peer: Peer, line: string): Promise<void> {
    // Before anything is looked for: who is refused a thousand times a second must not keep us busy with it.
    if (!this.#lines.take()) return
    const inode = await this.#inodeOf(peer)
    const holder = inode === null ? null : await this.#holderOf(inode)
    if (holder === null || this.#isRepeated(`${holder} ${line}`)) return
    await using stderr = await open(this.#tree.pathOf(holder, 'fd/2'), pathOnly).catch(() => null)
    if (stderr !== null && (await this.#mayBeWritten(stderr))) await writeOnce(stderr, `${line}\n`)
  }

  #isRepeated(key: string): boolean {
    const now = performance.now()
    if (now - (this.#said.get(key) ?? -quietMs) < quietMs) return true
    if (this.#said.size >= mostRemembered) this.#said.clear()
    this.#said.set(key, now)
    return false
  }

  /**
   * Only a pipe without a name, which leads from one program inside to another, and what we gave the agent ourselves. A
   * file, a device or a named pipe the agent may have put there to have us write where it cannot; asked of the
   * descriptor we hold, which nobody can exchange. (escape: stderr-swap)
   */
  async #mayBeWritten(stderr: FileHandle): Promise<boolean> {
    const found = await stderr.stat()
    if (this.#given.spared.some((given) => isSame(given, found))) return false
    const isOwn = isSame(this.#given.stderr, found)
    if (found.isFIFO()) return isOwn || (await readlink(selfPath(stderr))).startsWith('pipe:[')
    // A program that draws on its terminal takes keys one by one, and is not to be drawn over.
    return isOwn && found.isCharacterDevice() && (await takesLines(selfPath(stderr)))
  }

  async #inodeOf({ protocol, port, toPort }: Peer): Promise<string | null> {
    const tables = [protocol, `${protocol}6`].map((name) => this.#tree.read(this.#tree.agent, `net/${name}`))
    for (const table of await Promise.all(tables)) {
      const inode = inodeIn(table, port, toPort)
      if (inode !== null) return inode
    }
    return null
  }

  async #holderOf(inode: string): Promise<number | null> {
    // The youngest: a program that was started for the work, not the one that waits for it.
    for (const pid of (await this.#tree.list()).toReversed()) {
      const folder = this.#tree.pathOf(pid, 'fd')
      const numbers = await readdir(folder).catch(() => [])
      const names = await Promise.all(numbers.map((number) => readlink(join(folder, number)).catch(() => '')))
      if (names.includes(`socket:[${inode}]`)) return pid
    }
    return null
  }
}

/** Of `/proc/PID/net/tcp` or its like, the inode of the socket between two ports. */
export function inodeIn(table: string, port: number, toPort: number): string | null {
  for (const line of table.split('\n').slice(1)) {
    const [, local = '', remote = '', , , , , , , inode = '0'] = line.trim().split(/\s+/)
    if (portIn(local) === port && portIn(remote) === toPort && inode !== '0') return inode
  }
  return null
}

const portIn = (address: string): number => Number.parseInt(address.split(':')[1] ?? '', 16)

const selfPath = ({ fd }: FileHandle): string => `/proc/${process.pid}/fd/${fd}`

async function takesLines(path: string): Promise<boolean> {
  const asked = await run('stty', ['-F', path, '-a'], { timeoutMs: 1000 }).catch(() => null)
  return asked?.code === 0 && /\sicanon\b/.test(asked.stdout.toString())
}

/** Whole or not at all, and without waiting: a pipe that is full or that nobody reads is the program's affair. */
async function writeOnce(stderr: FileHandle, text: string): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY
  await using writer = await open(selfPath(stderr), flags).catch(() => null)
  await writer?.write(text).catch(() => {})
}
