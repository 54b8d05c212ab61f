import { lstatSync, watch, type FSWatcher } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { run } from '../../base/process.ts'
import { pathBytes, pathText } from '../bytes.ts'
import type { HostFacts } from '../host/host.ts'
import { softwareBounds } from './systemView.ts'

/** Software may be there in any amount: where it is more than this it is looked through at every start. */
export const mostFolders = 4000
// Times of files are taken from a clock that is behind by one tick.
const tickMs = 20
const closeAfterMs = 1000
const closedAtOnce = 100

type Searched = { readonly tools: Pick<HostFacts['tools'], 'find'> } & Pick<
  HostFacts,
  'etcFolders' | 'searched' | 'searchedAtMs' | 'secretPaths' | 'uid'
>

/**
 * Whether anything came, went or got another mode where secrets of the host are looked for, since they were. Somebody
 * who waits for a dispatch has looked long before: a file that is closed to others meanwhile (`chmod`) changes the time of no
 * folder, and to look at every file anew would keep an agent waiting. (escape: closed-while-waiting)
 */
export class SecretWatch implements Disposable {
  readonly #watchers: FSWatcher[] = []
  #known: ReadonlySet<string> = new Set()
  #isChanged = false
  #isOver = false

  /** Asked by who waits: what was told before that is heard first. */
  async isChanged(): Promise<boolean> {
    await turn()
    return this.#isChanged
  }

  async start(host: Searched, places = host.searched.software): Promise<void> {
    const { tools, etcFolders, searched, searchedAtMs, secretPaths, uid } = host
    const { find } = tools
    if (find === null) return
    this.#known = new Set(secretPaths.map(({ path }) => path))
    const software = uid === 0 ? places : []
    const bounds = ['-xdev', '-maxdepth', softwareBounds.depth]
    const { timeoutMs } = softwareBounds
    const listed =
      software.length === 0
        ? null
        : await run(find, [...software, ...bounds, '-type', 'd', '-print0'], { cwd: '/', timeoutMs })
    const below = (listed?.stdout.toString('latin1').split('\0') ?? [])
      .filter(Boolean)
      .map((latin) => pathText(Buffer.from(latin, 'latin1')))
    for (const { path } of etcFolders) if (!this.#watch(path)) this.#tell()
    // What is not watched may change: then it is looked for anew, each time.
    const isCut = listed?.signal != null || below.length > mostFolders
    if (isCut || !below.every((path) => this.#watch(path))) this.#tell()
    // What was changed between the search and now nobody told.
    const since = ((searchedAtMs - tickMs) / 1000).toFixed(3)
    const etc = etcFolders.slice(0, 1).flatMap(({ path }) => [path, ...searched.etc.slice(1)])
    const folders = [...etc, ...software]
    if (folders.length === 0) return
    const newer = await run(find, [...folders, ...bounds, '-newerct', `@${since}`, '-print', '-quit'], {
      cwd: '/',
      timeoutMs,
    })
    // One that did not finish says nothing either way.
    if (newer.stdout.length > 0 || newer.signal !== null) this.#tell()
  }

  /** False where it cannot be: the kernel has a bound on how many, and folders go. */
  #watch(path: string): boolean {
    if (this.#isOver) return true
    try {
      const watcher = watch(pathBytes(path), { persistent: false, encoding: 'buffer' }, (_, name) => {
        if (!this.#isOver && name !== null && this.#isNew(join(path, pathText(name)))) this.#tell()
      })
      watcher.on('error', () => this.#tell())
      this.#watchers.push(watcher)
      return true
    } catch {
      return false
    }
  }

  /** Not what everybody may read, nor what is hidden already: programs write to their files all the time. */
  #isNew(path: string): boolean {
    const facts = lstatSync(pathBytes(path), { throwIfNoEntry: false })
    const isKnown = this.#known.has(path)
    if (facts === undefined) return isKnown
    if (facts.isSymbolicLink()) return false
    return !isKnown && (facts.isDirectory() || (facts.mode & 0o004) === 0)
  }

  #tell(): void {
    this.#isChanged = true
    this[Symbol.dispose]()
  }

  /** To close a thousand watchers takes ten milliseconds, and it is done with when an agent waits: so later, by and by. */
  [Symbol.dispose](): void {
    if (this.#isOver) return
    this.#isOver = true
    setTimeout(() => void this.#close(), closeAfterMs).unref()
  }

  async #close(): Promise<void> {
    while (this.#watchers.length > 0) {
      for (const watcher of this.#watchers.splice(0, closedAtOnce)) watcher.close()
      await turn()
    }
  }
}
