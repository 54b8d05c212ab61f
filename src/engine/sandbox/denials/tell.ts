import { constants, fstatSync, type Stats } from 'node:fs'
import { open, readlink, statfs, type FileHandle } from 'node:fs/promises'
import { PerMinute } from '../../../shared/perMinute.ts'
import { run } from '../../base/process.ts'
import type { Peer } from '../../base/sandbox.ts'
import type { Borrow, Identity } from '../holder/borrow.ts'
import { programAt } from './peers.ts'
import type { ProcessTree } from '../narrow/tree.ts'

// Node does not name it: a descriptor that stands for a file and can neither read nor write it.
const pathOnly = 0o10000000
const mostLines = 60
/** Who is refused a thousand times a second must not keep us busy with it. */
const mostSearches = 300
const mostWaiting = 32
const searchMs = 500
const patienceMs = 1000
const mostRemembered = 256
/** A program that repeats itself need not be told again before it has had time to be read. */
const quietMs = 10_000

/**
 * Disks and memory, overlays included. What is written to other kinds of file goes by who writes: an agent may have opened
 * one of the kernel's that only we may write to. (escape: stderr-swap)
 */
const plainFileSystems = new Set([
  0xef53, 0x58465342, 0x9123683e, 0xf2f52010, 0x2fc12fc1, 0x01021994, 0x794c7630, 0x65735546, 0x6969,
])
const isPseudoTerminal = ({ rdev }: Stats): boolean => rdev >> 8 >= 136 && rdev >> 8 <= 143

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
  readonly #borrow: Borrow | null
  readonly #lines = new PerMinute(mostLines)
  readonly #searches = new PerMinute(mostSearches)
  readonly #said = new Map<string, number>()
  #waiting = 0
  #last: Promise<void> = Promise.resolve()

  constructor(tree: ProcessTree, given: Given, borrow: Borrow | null) {
    this.#tree = tree
    this.#given = given
    this.#borrow = borrow
  }

  /** One after the other, and whoever would wait too long not at all. */
  async tell(peer: Peer, line: string): Promise<void> {
    if (this.#waiting >= mostWaiting || !this.#searches.take()) return
    const until = performance.now() + patienceMs
    this.#waiting++
    this.#last = this.#last
      .then(() => (performance.now() < until ? this.#tellNow(peer, line) : undefined))
      .catch(() => {})
      .finally(() => this.#waiting--)
    await this.#last
  }

  async #tellNow(peer: Peer, line: string): Promise<void> {
    const until = performance.now() + searchMs
    const pid = await programAt(this.#tree, peer, () => performance.now() > until)
    if (pid === null || this.#isRepeated(`${pid} ${line}`) || !this.#lines.take()) return
    await using stderr = await open(this.#tree.pathOf(pid, 'fd/2'), pathOnly).catch(() => null)
    if (stderr === null) return
    const found = await stderr.stat()
    const way = await this.#wayTo(stderr, found)
    if (way === 'open') await writeOnce(stderr, `${line}\n`)
    if (way === 'borrow') await this.#borrow?.(pid, found, `${line}\n`)
  }

  #isRepeated(key: string): boolean {
    const now = performance.now()
    if (now - (this.#said.get(key) ?? -quietMs) < quietMs) return true
    if (this.#said.size >= mostRemembered) this.#said.clear()
    this.#said.set(key, now)
    return false
  }

  /**
   * A pipe without a name, which leads from one program inside to another, and what we gave the agent ourselves, are opened.
   * A file, a terminal or a named pipe the agent may have put there to have us write where it cannot: those are written
   * to through the program's own descriptor, which can do what the program can, or not at all. Asked of the descriptor we
   * hold, which nobody can exchange. (escape: stderr-swap)
   */
  async #wayTo(stderr: FileHandle, found: Stats): Promise<'open' | 'borrow' | null> {
    if (this.#given.spared.some((given) => isSame(given, found))) return null
    const isOwn = isSame(this.#given.stderr, found)
    if (found.isFIFO())
      return isOwn || (await readlink(selfPath(stderr))).startsWith('pipe:[') ? 'open' : null
    if (found.isSocket()) return 'borrow'
    if (found.isFile()) return plainFileSystems.has((await statfs(selfPath(stderr))).type) ? 'borrow' : null
    if (!found.isCharacterDevice() || !(isOwn || isPseudoTerminal(found))) return null
    // A program that draws on its terminal takes keys one by one, and is not to be drawn over.
    if (!(await takesLines(selfPath(stderr)))) return null
    return isOwn ? 'open' : 'borrow'
  }
}

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
