import { constants, open } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { BoundaryLevel } from '../../shared/boundary.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { run } from '../base/process.ts'
import { doorPath } from '../base/sandbox.ts'
import { askScript, commandScript } from './scripts.ts'
import { longestLine, readWish, type Wish } from './wish.ts'

export type Asked = {
  readonly to: BoundaryLevel
  readonly hosts: readonly string[]
  readonly reason: string
  readonly waitMs: number
}
export type Answered = {
  readonly status: 'approved' | 'denied' | 'open' | 'refused'
  readonly message: string
}
type Listener = (asked: Asked) => Promise<Answered>

const exitCodes: Readonly<Record<Answered['status'], number>> = {
  approved: 0,
  denied: 77,
  open: 75,
  refused: 65,
}
/** More than this within a minute is not even passed on: asking must not be a way to keep us busy. */
const mostAsked = 30
const mostWaiting = 20
const answersKept = 60
const minuteMs = 60_000
/** An agent that pours more than this into the pipe within a second waits for the next one. */
const mostBytes = 64 * 1024
const breathMs = 1_000

/**
 * The one way out of a sandbox that an agent can speak through: a pipe that takes a line, and files that answer
 * it. The folder is read-only inside; nothing that comes in is more than a question to a person.
 */
export class Door implements AsyncDisposable {
  readonly folder: string
  /** Whether calls of some programs go through a script of ours. */
  readonly guardsCommands: boolean
  readonly #pipe: Socket
  readonly #asked: number[] = []
  readonly #answers: string[] = []
  #waiting = 0
  #deniedText = ''
  #writing: Promise<unknown> = Promise.resolve()

  constructor(folder: string, descriptor: number, guardsCommands: boolean) {
    this.folder = folder
    this.guardsCommands = guardsCommands
    this.#pipe = new Socket({ fd: descriptor, readable: true, writable: false })
    // A pipe that broke is a door that stays shut; the dispatch goes on.
    this.#pipe.on('error', () => {})
    this.#pipe.pause()
  }

  /** From now on questions are heard. */
  listen(listener: Listener): void {
    let rest = ''
    let taken = 0
    this.#pipe.on('data', (chunk: Buffer) => {
      taken += chunk.length
      if (taken > mostBytes && !this.#pipe.isPaused()) {
        this.#pipe.pause()
        setTimeout(() => {
          taken = 0
          this.#pipe.resume()
        }, breathMs).unref()
      }
      const lines = (rest + chunk.toString('utf8')).split('\n')
      rest = (lines.pop() ?? '').slice(-longestLine)
      for (const line of lines) this.#hear(line.slice(0, longestLine), listener)
    })
    this.#pipe.resume()
  }

  /** Calls that are refused from now on: a program's name, or its first words. */
  deny(commands: readonly string[]): Promise<void> {
    const text = commands.map((command) => `${command.replaceAll(/\s+/g, ' ')}\n`).join('')
    if (text === this.#deniedText) return Promise.resolve()
    this.#deniedText = text
    return this.#inTurn(() => replace(join(this.folder, 'denied'), text, 0o644))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#pipe.destroy()
    await this.#writing.catch(() => {})
    await rm(this.folder, { recursive: true, force: true })
  }

  #hear(line: string, listener: Listener): void {
    const heard = readWish(line)
    if (heard.kind === 'noise') return
    const now = Date.now()
    while (this.#asked.length > 0 && now - (this.#asked[0] as number) > minuteMs) this.#asked.shift()
    // Beyond it not even an answer is written: that too would be work.
    if (this.#asked.length >= mostAsked) return
    this.#asked.push(now)
    if (heard.kind === 'unclear') this.#answer(heard.token, { status: 'refused', message: heard.why })
    else void this.#pass(heard.wish, listener)
  }

  async #pass({ token, to, hosts, reason, wait_s: seconds }: Wish, listener: Listener): Promise<void> {
    const mayWait = this.#waiting < mostWaiting
    this.#waiting++
    try {
      const waitMs = mayWait ? seconds * 1000 : 0
      this.#answer(token, await listener({ to, hosts, reason, waitMs }))
    } catch (error) {
      this.#answer(token, {
        status: 'refused',
        message: error instanceof Error ? error.message : String(error),
      })
    } finally {
      this.#waiting--
    }
  }

  #answer(token: string, { status, message }: Answered): void {
    const folder = join(this.folder, 'answers')
    void this.#inTurn(async () => {
      await replace(join(folder, token), `${exitCodes[status]}\n${status}: ${message}\n`, 0o644)
      this.#answers.push(token)
      const surplus = this.#answers.splice(0, Math.max(0, this.#answers.length - answersKept))
      await Promise.all(surplus.map((name) => rm(join(folder, name), { force: true })))
    }).catch(() => {})
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const next = this.#writing.catch(() => {}).then(work)
    this.#writing = next
    return next
  }
}

async function replace(path: string, text: string, mode: number): Promise<void> {
  await writeFile(`${path}.new`, text, { mode })
  await rename(`${path}.new`, path)
}

/** Makes the folder that is shown inside. `commands` are all that some boundary may refuse. */
export async function openDoor(
  folder: string,
  commands: readonly string[],
  shownAt: string = doorPath,
): Promise<Door> {
  await makeAfresh(folder)
  const pipe = join(folder, 'ask')
  const names = [...new Set(commands.flatMap((command) => programOf(command)))]
  const programs = async (kind: 'bin' | 'commands', texts: Readonly<Record<string, string>>) => {
    await mkdir(join(folder, kind), { mode: 0o755 })
    for (const [name, text] of Object.entries(texts))
      await writeFile(join(folder, kind, name), text, { mode: 0o755 })
  }
  // Side by side: an agent waits for this.
  const [made] = await Promise.all([
    run('mkfifo', ['-m', '600', pipe]),
    mkdir(join(folder, 'answers'), { mode: 0o755 }),
    programs('bin', { 'orangery-ask': askScript(shownAt) }),
    programs('commands', Object.fromEntries(names.map((name) => [name, commandScript(shownAt)]))),
    writeFile(join(folder, 'denied'), '', { mode: 0o644 }),
  ])
  if (made.code !== 0) {
    throw new OrangeryError('door.no_pipe', `mkfifo: ${made.stderr.toString().trim()}`, {
      kind: 'cannot_create',
    })
  }
  // For both, so that it never ends: askers come and go.
  const descriptor = await promisify(open)(pipe, constants.O_RDWR | constants.O_NONBLOCK)
  return new Door(folder, descriptor, names.length > 0)
}

/** One that a killed supervisor left may be there still. */
async function makeAfresh(folder: string): Promise<void> {
  const make = () => mkdir(folder, { mode: 0o755 })
  await make().catch(async () => {
    await rm(folder, { recursive: true, force: true })
    await make()
  })
}

/** The program a listed command starts with; a path names a file and no word on PATH. */
function programOf(command: string): readonly string[] {
  const name = command.trim().split(/\s+/)[0] ?? ''
  return name === '' || name.includes('/') || name === '.' || name === '..' ? [] : [name]
}
