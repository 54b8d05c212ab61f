import { readdir, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { isInside } from './view.ts'

/**
 * The agent and all it started, looked at through the holder's own /proc: it lists the sandbox's processes
 * and no others, with the numbers the holder knows them by.
 */
export class ProcessTree {
  /** The agent's own process. */
  readonly agent: number
  readonly #folder: string
  /** Ours, beside the agent: the holder, who takes its orders, bubblewrap, fuse-overlayfs. */
  readonly #helpers: ReadonlySet<number>

  readonly #reaper: number

  private constructor(folder: string, agent: number, reaper: number, helpers: ReadonlySet<number>) {
    this.#folder = folder
    this.#reaper = reaper
    this.agent = agent
    this.#helpers = helpers
  }

  /** To be called while the gate stands: all other processes there are then ours. */
  static async open(holderPid: number, gatePid: number): Promise<ProcessTree> {
    const folder = `/proc/${holderPid}/root/proc`
    const status = await readFile(`/proc/${gatePid}/status`, 'utf8').catch(() => '')
    const agent = Number(/^NSpid:\s*\d+\s+(\d+)/m.exec(status)?.[1])
    const helpers = (await listProcesses(folder)).filter((pid) => pid !== agent)
    const said = await readFile(join(folder, String(agent), 'status'), 'utf8').catch(() => '')
    const reaper = Number(/^PPid:\s*(\d+)/m.exec(said)?.[1] ?? 1)
    return new ProcessTree(folder, agent, reaper, new Set(helpers))
  }

  async list(): Promise<readonly number[]> {
    const others = (await listProcesses(this.#folder)).filter((pid) => !this.#helpers.has(pid))
    const parents = await Promise.all(others.map((pid) => this.#parentOf(pid)))
    // A child of a helper is a command the holder runs for us; a relay has no parent in here at all.
    return others.filter((pid, index) => {
      const parent = parents[index] ?? 0
      return pid === this.agent || (parent !== 0 && (!this.#helpers.has(parent) || this.#isReaper(parent)))
    })
  }

  /** Orphans of the agent end up with the first process of its namespace, which is one of the helpers. */
  #isReaper(pid: number): boolean {
    return pid === this.#reaper
  }

  async #parentOf(pid: number): Promise<number> {
    return Number(/^PPid:\s*(\d+)/m.exec(await this.read(pid, 'status'))?.[1] ?? 0)
  }

  read(pid: number, name: string): Promise<string> {
    return readFile(join(this.#folder, String(pid), name), 'utf8').catch(() => '')
  }

  /** Memory of all of them together, now. */
  async memoryMb(): Promise<number> {
    const sizes = await Promise.all(
      (await this.list()).map(async (pid) => Number((await this.read(pid, 'statm')).split(' ')[1] ?? 0)),
    )
    return (sizes.reduce((sum, pages) => sum + pages, 0) * 4096) / 1024 / 1024
  }

  async nameOf(pid: number): Promise<string> {
    return (await this.read(pid, 'comm')).trim() || String(pid)
  }

  /** Files of a root that a process holds open, or mapped, for writing. */
  async writtenBy(pid: number, target: string): Promise<readonly string[]> {
    const mounts = (await this.read(pid, 'mountinfo')).split('\n').flatMap((line) => {
      const [id, , , , point] = line.split(' ')
      return point !== undefined && unescapeMount(point) === target ? [id] : []
    })
    if (mounts.length === 0) return []
    const numbers = await readdir(join(this.#folder, String(pid), 'fd')).catch(() => [])
    const open = await Promise.all(
      numbers.map(async (number) => {
        const info = await this.read(pid, `fdinfo/${number}`)
        const flags = Number.parseInt(/^flags:\s*(\d+)/m.exec(info)?.[1] ?? '0', 8)
        const mount = /^mnt_id:\s*(\d+)/m.exec(info)?.[1]
        if ((flags & 0o3) === 0 || !mounts.includes(mount)) return []
        return [
          await readlink(join(this.#folder, String(pid), 'fd', number)).catch(() => `descriptor ${number}`),
        ]
      }),
    )
    const mapped = (await this.read(pid, 'maps')).split('\n').flatMap((line) => {
      const [, modes = '', , , , ...path] = line.split(/\s+/)
      const file = path.join(' ')
      return modes.startsWith('rw') && modes.endsWith('s') && isInside(file, target) ? [file] : []
    })
    return [...new Set([...open.flat(), ...mapped])]
  }
}

async function listProcesses(folder: string): Promise<readonly number[]> {
  const names = await readdir(folder).catch(() => [])
  return names.filter((name) => /^\d+$/.test(name)).map(Number)
}

/** mountinfo writes blanks, newlines and backslashes as octal. */
export function unescapeMount(text: string): string {
  if (!text.includes('\\')) return text
  const bytes: number[] = []
  const source = Buffer.from(text)
  for (let index = 0; index < source.length; index++) {
    const octal = source.subarray(index + 1, index + 4).toString()
    if (source[index] === 0x5c && /^[0-7]{3}$/.test(octal)) {
      bytes.push(Number.parseInt(octal, 8))
      index += 3
    } else bytes.push(source[index] ?? 0)
  }
  return Buffer.from(bytes).toString()
}
