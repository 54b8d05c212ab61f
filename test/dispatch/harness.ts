import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, readlink, lstat, writeFile } from 'node:fs/promises'
import { createHash } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { DispatchDetail } from '../../src/shared/dispatch.ts'
import { isTerminal } from '../../src/shared/dispatch.ts'
import { startTicks } from '../../src/engine/base/processes.ts'
import { createEngine, type Engine } from '../../src/engine/index.ts'
import { removeTree } from './removeTree.ts'

export const execute = promisify(execFile)

/** A data folder, a project folder and an engine on them, all real and all gone afterwards. */
export class Bench implements AsyncDisposable {
  readonly base: string
  readonly project: string
  readonly dataDir: string
  engine: Engine

  private constructor(base: string, engine: Engine) {
    this.base = base
    this.project = join(base, 'project')
    this.dataDir = join(base, 'data')
    this.engine = engine
  }

  static async create(files: Readonly<Record<string, string>> = { 'old.txt': 'old\n' }): Promise<Bench> {
    const base = await mkdtemp(join(tmpdir(), 'orangery-'))
    await mkdir(join(base, 'project'))
    for (const [name, text] of Object.entries(files)) await writeFile(join(base, 'project', name), text)
    const engine = await createEngine({ dataDir: join(base, 'data'), host: 'command-line' })
    return new Bench(base, engine)
  }

  get client() {
    return this.engine.client
  }

  async spawn(script: string, more: object = {}): Promise<string> {
    const { id } = await this.client.call('dispatch.spawn', {
      agent: 'shell',
      prompt: script,
      roots: [this.project],
      ...more,
    })
    return id
  }

  async ended(id: string): Promise<DispatchDetail> {
    for (let waited = 0; waited < 30_000; waited += 20) {
      const dispatch = await this.client.call('dispatch.get', { id })
      if (isTerminal(dispatch.status)) return dispatch
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    throw new Error(`${id} did not end`)
  }

  async running(id: string): Promise<void> {
    for (let waited = 0; waited < 20_000; waited += 10) {
      const { status } = await this.client.call('dispatch.get', { id })
      if (status === 'running') return
      if (isTerminal(status)) throw new Error(`${id} is ${status}`)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    throw new Error(`${id} did not start`)
  }

  async output(id: string): Promise<string> {
    let text = ''
    for await (const item of this.client.open('dispatch.output', { id, follow: false })) {
      text += Buffer.from(item.data, 'base64').toString()
    }
    return text
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.engine.close()
    await waitUntil('supervisors are gone', async () => (await processesWith(this.dataDir)).length === 0)
    await removeTree(this.base)
  }
}

/** A digest of names, types, modes and bytes of everything below a folder: the outside oracle of "untouched". */
export async function fingerprint(folder: string): Promise<string> {
  const hash = createHash('sha256')
  const walk = async (path: string): Promise<void> => {
    for (const name of (await readdir(path)).sort()) {
      const child = join(path, name)
      const facts = await lstat(child)
      hash.update(`${child}\0${facts.mode}\0${facts.size}\0${facts.mtimeMs}\0`)
      if (facts.isSymbolicLink()) hash.update(await readlink(child))
      else if (facts.isFile()) hash.update(await readFile(child))
      else if (facts.isDirectory()) await walk(child)
    }
  }
  await walk(folder)
  return hash.digest('hex')
}

/** Processes whose command line holds the text. */
export async function processesWith(text: string): Promise<string[]> {
  const found: string[] = []
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue
    const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    if (line.includes(text)) found.push(`${pid} ${line.replaceAll('\0', ' ')}`)
  }
  return found
}

/** As a power cut does it: nobody is left who could tidy up, so that the next start has to. */
export async function killSupervisor(dataDir: string): Promise<void> {
  const found = await processesWith(dataDir)
  const pids = ['orangery-caretaker', 'main/supervisor.js'].flatMap((name) =>
    found.filter((line) => line.includes(name)).map((line) => Number(line.split(' ')[0])),
  )
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // Gone meanwhile: the others are killed all the same.
    }
  }
  // Its agent dies with its first thread: a start right after that would still find it alive.
  await waitUntil('they are dead', async () =>
    (await Promise.all(pids.map(startTicks))).every((at) => at === 0),
  )
}

export async function waitUntil(
  what: string,
  test: () => Promise<boolean> | boolean,
  ms = 10_000,
): Promise<void> {
  for (let waited = 0; waited < ms; waited += 20) {
    if (await test()) return
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw new Error(`not in time: ${what}`)
}
