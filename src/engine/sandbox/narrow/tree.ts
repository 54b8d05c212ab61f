import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { parseMapping, sharedMapping, writableRanges, type Mapping } from './mappings.ts'
import { mountsOf, parseMounts, type InnerMount, type Place } from './mountTable.ts'
import { blockBytes, type DiskCount } from '../limits/disk.ts'
import type { SandboxPlan } from '../plan/plan.ts'
import { parseState, parseUse, readProcess } from './processes.ts'
import { isInside } from '../plan/view.ts'

/** `cpuMs` includes that of those that ended. */
export type TreeUse = { readonly memoryMb: number; readonly cpuMs: number }

/** Who is there, by the numbers the holder knows them by. */
export type Survey = {
  readonly theirs: readonly number[]
  readonly ours: readonly number[]
  readonly moving: readonly number[]
}

/** Something a process has open: where it leads, and what the kernel says of it, which is nothing where all is closed to us. */
type Open = { readonly link: string; readonly path: string; readonly info: () => string }

/** Processes and descriptors are as many as the agent likes: all at once they would hold off whoever else needs a thread. */
const atOnce = 32
const longestTurnMs = 4

export async function inSlices<T, R>(
  items: readonly T[],
  work: (item: T) => Promise<R>,
): Promise<readonly R[]> {
  const results: R[] = []
  for (let at = 0; at < items.length; at += atOnce)
    results.push(...(await Promise.all(items.slice(at, at + atOnce).map(work))))
  return results
}

/** Small reads of /proc are done at once, a trip to the thread pool takes ten times as long; others get their turn meanwhile. */
async function inTurns<T, R>(items: readonly T[], work: (item: T) => R): Promise<readonly R[]> {
  const results: R[] = []
  let since = performance.now()
  for (const item of items) {
    results.push(work(item))
    if (performance.now() - since < longestTurnMs) continue
    await new Promise(setImmediate)
    since = performance.now()
  }
  return results
}

function orElse<T>(work: () => T, otherwise: T): T {
  try {
    return work()
  } catch {
    return otherwise
  }
}

/** For a folder that cannot be listed: whether it is closed to us, or gone. */
const unlessGone = ({ code }: NodeJS.ErrnoException): 'closed' | readonly string[] =>
  code === 'EACCES' || code === 'EPERM' ? 'closed' : []

/** What has no place in a root: no folder of a root can come to lie in /dev, where nobody inside may write. */
const isPlaceless = (link: string) => /^(?:(?:pipe|socket|anon_inode):|\/dev\/null$)/.test(link)
/** Where a descriptor leads that only fdinfo tells of. */
const somewhere = 'a file'
/** What the kernel adds to the path of a file that has none. */
const deleted = ' (deleted)'

/** Whether a descriptor, by its fdinfo, was opened through one of these mounts. */
function isOf(info: string, mounts: readonly InnerMount[]): boolean {
  const mount = /^mnt_id:\s*(\d+)/m.exec(info)?.[1]
  return mounts.some(({ id }) => id === mount)
}

/** Nobody tells the mount of a mapping. Not every kernel names the overlay's device for it, nor is every place one. */
const isMappedFrom = ({ device, file }: Mapping, { devices }: Place, here: readonly InnerMount[]): boolean =>
  devices.has(device) || here.some(({ point }) => isInside(file, point))

/**
 * The agent and all it started, looked at through the holder's own /proc: it lists the sandbox's processes
 * and no others, with the numbers the holder knows them by.
 */
export class ProcessTree {
  /** The agent's own process. */
  readonly agent: number
  readonly #folder: string
  readonly #hasOneView: boolean
  /** Who waits for the agent, and for whatever in here lost its parent; 0 until it was asked for. */
  #keeper = 0

  /** `gatePid` is the gate's, or the agent's it became, as the host numbers it. */
  constructor(holderPid: number, gatePid: number, confinement: SandboxPlan['confinement']) {
    // There nobody inside can make a mount namespace: what one sees mounted, all do, however many they are.
    this.#hasOneView = confinement === 'bubblewrap'
    this.#folder = `/proc/${holderPid}/root/proc`
    this.agent = Number(/^NSpid:\s*\d+\s+(\d+)/m.exec(readProcess(gatePid, 'status'))?.[1])
  }

  async list(): Promise<readonly number[]> {
    return (await this.survey()).theirs
  }

  /** All that is there now: theirs, and what runs for us. `moving` of theirs are those that would go on by themselves. */
  async survey(): Promise<Survey> {
    const all = this.#numbers()
    const ours = this.#parentsOfOurs()
    const known = await inTurns(all, (pid) => ({ pid, ...parseState(this.#readNow(pid, 'stat')) }))
    const isTheirs = ({ pid, parent }: (typeof known)[number]) =>
      pid >= this.agent && (pid === this.agent || !ours.has(parent))
    const theirs = known.filter(isTheirs)
    return {
      theirs: theirs.map(({ pid }) => pid),
      ours: known.filter((found) => !isTheirs(found)).map(({ pid }) => pid),
      moving: theirs.filter(({ state }) => state === 'R' || state === 'S').map(({ pid }) => pid),
    }
  }

  /** What was there before the agent: nothing of it is the agent's, and nobody need be asked. */
  elders(): readonly number[] {
    return this.#numbers().filter((pid) => pid < this.agent)
  }

  /** The last that were started, one after the other, and the agent: a program that was started for the work comes first. */
  async *youngest(most: number): AsyncGenerator<number> {
    const later = this.#numbers()
      .filter((pid) => pid > this.agent)
      .toSorted((a, b) => b - a)
    const ours = this.#parentsOfOurs()
    for (const pid of later.slice(0, most - 1))
      if (!ours.has(parseState(this.#readNow(pid, 'stat')).parent)) yield pid
    yield this.agent
  }

  #numbers(): readonly number[] {
    const names = orElse(() => readdirSync(this.#folder), [])
    return names.filter((name) => /^\d+$/.test(name)).map(Number)
  }

  /**
   * Who watches, and below it who takes the orders. A child of theirs is a command that is run for us, and a relay has no
   * parent in here. What was there before the agent is ours too: the holder, bubblewrap, fuse-overlayfs.
   */
  #parentsOfOurs(): ReadonlySet<number> {
    const [watcher = 0] = this.#childrenOf(1)
    return new Set([0, watcher, ...this.#childrenOf(watcher)])
  }

  #childrenOf(pid: number): readonly number[] {
    return this.#readNow(pid, `task/${pid}/children`).split(' ').filter(Boolean).map(Number)
  }

  #readNow(pid: number, name: string): string {
    return orElse(() => readFileSync(this.pathOf(pid, name), 'utf8'), '')
  }

  /** Of a process inside, by its number there. */
  pathOf(pid: number, name: string): string {
    return join(this.#folder, String(pid), name)
  }

  read(pid: number, name: string): Promise<string> {
    return readFile(this.pathOf(pid, name), 'utf8').catch(() => '')
  }

  /**
   * What all of them together use, now. Whoever waits for others is read before them: one that ends meanwhile is then
   * counted too little, which the next look makes good, and never twice.
   */
  async use(): Promise<TreeUse> {
    this.#keeper ||= parseState(this.#readNow(this.agent, 'stat')).parent
    let [memoryMb, cpuMs] = [0, parseUse(this.#readNow(this.#keeper, 'stat')).endedMs]
    await this.#each((pid, stat) => {
      const one = parseUse(stat)
      memoryMb += one.memoryMb
      // Of many that run for a moment each, steps of 10 ms would leave nothing. This is the first thread alone.
      const firstMs = Number.parseInt(this.#readNow(pid, 'schedstat'), 10) / 1e6 || 0
      cpuMs += Math.max(one.ownMs, firstMs) + one.endedMs
    })
    return { memoryMb, cpuMs: Math.round(cpuMs) }
  }

  /** Processes with their threads, counted in the least time. */
  async countTasks(): Promise<number> {
    let tasks = 0
    await this.#each((_, stat) => {
      tasks += parseUse(stat).tasks
    })
    return tasks
  }

  /** One after the other as they were started: one read each. */
  async #each(look: (pid: number, stat: string) => void): Promise<void> {
    const ours = this.#parentsOfOurs()
    const later = this.#numbers().filter((pid) => pid >= this.agent)
    await inTurns(later, (pid) => {
      const stat = this.#readNow(pid, 'stat')
      if (pid === this.agent || !ours.has(parseState(stat).parent)) look(pid, stat)
    })
  }

  /** Changes whenever anything is started, threads too. */
  lastStarted(): string {
    const load = orElse(() => readFileSync(join(this.#folder, 'loadavg'), 'utf8'), '')
    return load.slice(load.lastIndexOf(' ') + 1)
  }

  /** Whether any of them has descriptors on their way. */
  async hasCarried(): Promise<boolean> {
    for (const pid of await this.list()) if ((await this.carriedBy(pid)) > 0) return true
    return false
  }

  async nameOf(pid: number): Promise<string> {
    return (await this.read(pid, 'comm')).trim() || String(pid)
  }

  /** Its path, as it was started; empty where that is not told. */
  programOf(pid: number): string {
    return this.#follow(this.pathOf(pid, 'exe'))
  }

  /**
   * Bytes on disk of files in a place that have no name any more but are held open, or mapped; not whole where they could
   * not be looked at. `folders` are for the levels where what is written is no mount.
   */
  async unlinked(place: Place, folders: readonly string[] = []): Promise<DiskCount> {
    const isNamed = (name: string) => folders.some((folder) => isInside(name, folder))
    const files = new Map<string, number>()
    const guesses = new Map<string, number>()
    const count = async (path: string): Promise<boolean> => {
      const info = await stat(path).catch(() => null)
      if (info?.isFile() === true && info.nlink === 0) files.set(String(info.ino), info.blocks * blockBytes)
      return info !== null
    }
    let isWhole = true
    const known = new Map<string, readonly InnerMount[]>()
    for (const pid of await this.list()) {
      const all = this.#mounts(pid, known)
      const here = mountsOf(all, place)
      // Where the home is no mount, a copy need be none either.
      const around = place.ids.size === 0 ? all : here
      const open = (await this.#open(pid)).map(async ({ info, link, path }) => {
        if (link === somewhere && (info() === '' || isOf(info(), around))) isWhole = false
        if (!link.endsWith(deleted)) return
        if (isNamed(link) || isOf(info(), here)) await count(path)
      })
      // A file that is mapped lives on without a descriptor. (escape: disk-mapped)
      const mapped = (await this.#maps(pid)).map(async (mapping) => {
        const { range, bytes, inode, file } = mapping
        if (!file.endsWith(deleted) || !(isNamed(file) || isMappedFrom(mapping, place, here))) return
        if (await count(this.pathOf(pid, `map_files/${range}`))) return
        // Only root may ask the kernel what is behind a mapping: others take it for full.
        const key = `${pid} ${inode}`
        guesses.set(key, (guesses.get(key) ?? 0) + bytes)
      })
      await Promise.all([...open, ...mapped])
    }
    // Several processes may have the same one.
    const guessed = new Map<string, number>()
    for (const [key, bytes] of guesses) {
      const inode = key.slice(key.indexOf(' ') + 1)
      if (!files.has(inode)) guessed.set(inode, Math.max(bytes, guessed.get(inode) ?? 0))
    }
    const bytes = [...files.values(), ...guessed.values()].reduce((sum, bytes) => sum + bytes, 0)
    return { bytes, isWhole: isWhole && guessed.size === 0 }
  }

  /** Files of a root that a process holds open, or mapped, for writing. */
  async writtenBy(
    pid: number,
    place: Place,
    only: ReadonlySet<string> | undefined,
    /** What was read before of each mount namespace, in the same look. */
    known = new Map<string, readonly InnerMount[]>(),
  ): Promise<readonly string[]> {
    const tasks = this.#tasks(pid)
    const all = this.#mounts(pid, known, tasks)
    const here = only === undefined ? mountsOf(all, place) : all.filter(({ id }) => only.has(id))
    // A file below another mount is that one's.
    const apart = only === undefined ? [] : all.filter(({ id }) => !only.has(id))
    const isHere = (mapping: Mapping) =>
      only === undefined
        ? isMappedFrom(mapping, place, here)
        : here.some(
            ({ point }) =>
              isInside(mapping.file, point) &&
              !apart.some((inner) => isInside(inner.point, point) && isInside(mapping.file, inner.point)),
          )
    if (here.length === 0) return []
    const open = await inTurns(await this.#open(pid, tasks), ({ info, link }) => {
      const text = info()
      const flags = Number.parseInt(/^flags:\s*(\d+)/m.exec(text)?.[1] ?? '0', 8)
      return (flags & 0o3) === 0 || !isOf(text, here) ? [] : [link]
    })
    const maps = await this.#readAny(pid, 'maps', tasks)
    // Most have none.
    const lines = sharedMapping.test(maps) ? maps.split('\n').filter((line) => sharedMapping.test(line)) : []
    const shared = lines.flatMap(parseMapping).filter(isHere)
    // What may be written to is told by the file that was mapped, not by what the mapping allows now: mprotect
    // can change that later. (escape: narrow-hidden-descriptor)
    const kept = shared.length === 0 ? new Set() : writableRanges(await this.#readAny(pid, 'smaps'))
    const mapped = shared.flatMap(({ range, file }) => (kept.has(range) ? [file] : []))
    return [...new Set([...open.flat(), ...mapped])]
  }

  /** Files and folders of a root without a name that a process keeps, be it for reading: open, mapped, or as where it is. */
  async namelessOf(
    pid: number,
    place: Place,
    known = new Map<string, readonly InnerMount[]>(),
  ): Promise<readonly string[]> {
    const here = mountsOf(this.#mounts(pid, known), place)
    if (here.length === 0) return []
    const open = await inTurns(await this.#open(pid), ({ info, link }) => (isOf(info(), here) ? link : ''))
    const cwd = this.#follow(this.pathOf(pid, 'cwd'))
    const isHere = here.some(({ point }) => isInside(cwd, point))
    const mapped = (await this.#maps(pid)).filter((mapping) => isMappedFrom(mapping, place, here))
    const files = mapped.map(({ file }) => file)
    const names = [...open, ...(isHere ? [cwd] : []), ...files].filter((name) => name.endsWith(deleted))
    return [...new Set(names)].map((name) => name.slice(0, -deleted.length))
  }

  /** What each mount namespace inside has mounted: an agent at level 0 may have made more of them. */
  async mountinfos(): Promise<readonly string[]> {
    const seen = new Map<string, string>()
    const viewers = this.#hasOneView ? [this.agent] : await this.list()
    await inTurns(viewers, (pid) => {
      for (const task of this.#tasks(pid)) {
        const namespace = this.#follow(this.pathOf(pid, `task/${task}/ns/mnt`))
        if (namespace === '' || seen.has(namespace)) continue
        const text = this.#readNow(pid, `task/${task}/mountinfo`)
        if (text !== '') seen.set(namespace, text)
      }
    })
    return [...seen.values()]
  }

  /** How many descriptors of whatever are on their way to a process, in messages it has not taken. */
  async carriedBy(pid: number): Promise<number> {
    const mayCarry = (link: string) => link.startsWith('socket:') || link === somewhere
    const sockets = await this.#open(pid, this.#tasks(pid), mayCarry)
    const counts = await inTurns(sockets, ({ info }) => /^scm_fds:\s*(\d+)/m.exec(info())?.[1])
    return counts.reduce((sum, count) => sum + Number(count ?? 0), 0)
  }

  /** Of every thread: one may have parted from the others' table. (escape: narrow-hidden-descriptor) */
  async #open(
    pid: number,
    tasks = this.#tasks(pid),
    isMeant: (link: string) => boolean = (link) => !isPlaceless(link),
  ): Promise<readonly Open[]> {
    const found: Open[] = []
    for (const task of tasks) {
      // The list is as long as the agent likes: not at once.
      const numbers = await readdir(this.pathOf(pid, `task/${task}/fd`)).catch(unlessGone)
      if (numbers === 'closed')
        found.push(...(await this.#openUnseen(pid, task)).filter(({ link }) => isMeant(link)))
      else
        await inTurns(numbers, (number) => {
          const path = this.pathOf(pid, `task/${task}/fd/${number}`)
          const link = this.#follow(path)
          if (link !== '' && isMeant(link))
            found.push({ link, path, info: () => this.#readNow(pid, `task/${task}/fdinfo/${number}`) })
        })
    }
    return found
  }

  /**
   * A process that cannot be dumped closes its table of descriptors to all but root: by prctl, or by being a program that can
   * be run and not read. Newer kernels still tell the owner of its namespace what is open, but not where it leads.
   * (escape: disk-undumpable)
   */
  async #openUnseen(pid: number, task: string): Promise<readonly Open[]> {
    // One that ended is closed too, and has nothing.
    if (/[ZX]/.test(parseState(this.#readNow(pid, `task/${task}/stat`)).state)) return []
    const path = this.pathOf(pid, `task/${task}/fdinfo`)
    const numbers = await readdir(path).catch(unlessGone)
    if (numbers === 'closed') return [{ link: somewhere, path, info: () => '' }]
    return numbers.map((number) => ({
      link: somewhere,
      path,
      info: () => this.#readNow(pid, `task/${task}/fdinfo/${number}`),
    }))
  }

  #follow(path: string): string {
    return orElse(() => readlinkSync(path), '')
  }

  #tasks(pid: number): readonly string[] {
    return orElse(() => readdirSync(this.pathOf(pid, 'task')), [])
  }

  /** As the process sees them. Most are in the same namespace, and what that says is long. */
  #mounts(
    pid: number,
    known = new Map<string, readonly InnerMount[]>(),
    tasks = this.#tasks(pid),
  ): readonly InnerMount[] {
    for (const task of tasks) {
      const namespace = this.#follow(this.pathOf(pid, `task/${task}/ns/mnt`))
      const found = known.get(namespace) ?? parseMounts(this.#readNow(pid, `task/${task}/mountinfo`))
      if (namespace !== '' && found.length > 0) known.set(namespace, found)
      if (found.length > 0) return found
    }
    return []
  }

  /** Threads have it in common, but the first of them may have ended, and then has nothing. */
  async #readAny(pid: number, name: string, tasks = this.#tasks(pid)): Promise<string> {
    for (const task of tasks) {
      const text = await this.read(pid, `task/${task}/${name}`)
      if (text !== '') return text
    }
    return ''
  }

  async #maps(pid: number): Promise<readonly Mapping[]> {
    return (await this.#readAny(pid, 'maps')).split('\n').flatMap(parseMapping)
  }
}
