import { constants, existsSync, open, renameSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { PerMinute } from '../../shared/perMinute.ts'
import { doorPath } from '../base/sandbox.ts'
import type { Answered, Asked, Listener, Waiting } from './asking.ts'
import { McpServer } from './mcp.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { makePipes } from './pipes.ts'
import { askScript, commandScript, mcpConfig } from './scripts.ts'
import { Session } from './session.ts'
import { longestLine, readWish, type Wish } from './wish.ts'

/** Nothing is wrong with the question; it may be asked again later. */
const comeBack = 75
const exitCodes: Readonly<Record<Answered['status'], number>> = {
  approved: 0,
  denied: 77,
  expired: comeBack,
  closed: comeBack,
  open: comeBack,
  refused: 65,
}
/** More than this within a minute is not passed on, only refused. */
const mostAsked = 30
const mostShown = 600
/** Beyond it not even a refusal is written: that too would be work. */
const mostRefused = 3_000
const mostWaiting = 20
const mostSessions = 8
const tooMany = 'too many questions: wait a minute'
/** Refusals are kept apart, so that a flood of them carries off no answer that somebody waits for. */
const kept = { answers: 60, refusals: 200 } as const
/** An agent that pours more than this into the pipe within a second waits for the next one. */
const mostBytes = 64 * 1024
const breathMs = 1_000

/**
 * The one way out of a sandbox that an agent can speak through: a pipe that takes a line, and files that answer
 * it. The folder is read-only inside; nothing that comes in is more than a question to a person.
 */
export class Door implements AsyncDisposable {
  #folder: string
  /** Programs whose calls go through a script of ours. */
  readonly #guarded = new Set<string>()
  readonly #shownAt: string
  #pipe: Socket | undefined
  readonly #version: string
  readonly #ending = new AbortController()
  readonly #sessions = new Map<string, Promise<Session>>()
  readonly #asked = new PerMinute(mostAsked)
  readonly #shown = new PerMinute(mostShown)
  readonly #refused = new PerMinute(mostRefused)
  readonly #written = { answers: [] as string[], refusals: [] as string[] }
  #waiting = 0
  #deniedText = ''
  #writing: Promise<unknown> = Promise.resolve()

  constructor(folder: string, { version, shownAt = doorPath }: DoorOptions) {
    this.#folder = folder
    this.#version = version
    this.#shownAt = shownAt
  }

  get folder(): string {
    return this.#folder
  }

  /** Puts everything in its place, once. An agent waits for this, the sandbox need not. */
  furnish(): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#pipe !== undefined) return
      const descriptor = await furnish(this.#folder, this.#shownAt)
      this.#pipe = new Socket({ fd: descriptor, readable: true, writable: false })
      // A pipe that broke is a door that stays shut; the dispatch goes on.
      this.#pipe.on('error', () => {})
      this.#pipe.pause()
    })
  }

  /** From now on the folder is this one, on the same file system. One that was made before it was known where. */
  moveTo(folder: string): Promise<void> {
    return this.#inTurn(async () => {
      // One that a killed supervisor left may be there still.
      if (existsSync(folder)) await rm(folder, { recursive: true, force: true })
      renameSync(this.#folder, folder)
      this.#folder = folder
    })
  }

  /** From now on questions are heard. */
  listen(listener: Listener): void {
    const pipe = this.#pipe
    let rest = ''
    let taken = 0
    pipe?.on('data', (chunk: Buffer) => {
      taken += chunk.length
      if (taken > mostBytes && !pipe.isPaused()) {
        pipe.pause()
        setTimeout(() => {
          taken = 0
          pipe.resume()
        }, breathMs).unref()
      }
      const lines = (rest + chunk.toString('utf8')).split('\n')
      rest = (lines.pop() ?? '').slice(-longestLine)
      for (const line of lines) this.#hear(line.slice(0, longestLine), listener)
    })
    pipe?.resume()
  }

  /**
   * Calls that are refused from now on: a program's name, or its first words. `later` are those that another boundary
   * would refuse: guarded already, because a shell remembers where it once found a program.
   */
  deny(commands: readonly string[], later: readonly string[] = []): Promise<void> {
    const text = commands.map((command) => `${command.replaceAll(/\s+/g, ' ')}\n`).join('')
    const programs = new Set([...commands, ...later].flatMap(programOf))
    const names = [...programs].filter((name) => !this.#guarded.has(name))
    if (text === this.#deniedText && names.length === 0) return Promise.resolve()
    this.#deniedText = text
    for (const name of names) this.#guarded.add(name)
    return this.#inTurn(async () => {
      await replace(join(this.#folder, 'denied'), text, 0o644)
      for (const name of names)
        await writeProgram(join(this.#folder, 'commands', name), commandScript(this.#shownAt))
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Once: the next turn of the same workspace has a door of its own at the same place.
    if (this.#ending.signal.aborted) return
    this.#ending.abort()
    await this.#writing.catch(() => {})
    this.#pipe?.destroy()
    const sessions = await Promise.allSettled(this.#sessions.values())
    for (const session of sessions)
      if (session.status === 'fulfilled') await session.value[Symbol.asyncDispose]()
    await this.#writing.catch(() => {})
    await rm(this.#folder, { recursive: true, force: true })
  }

  #hear(line: string, listener: Listener): void {
    const heard = readWish(line)
    if (heard.kind === 'noise') return
    const token = heard.kind === 'wish' ? heard.wish.token : heard.token
    if (!(heard.kind === 'show' ? this.#shown : this.#asked).take()) return this.#refuse(token)
    if (heard.kind === 'unclear') this.#answer(token, { status: 'refused', message: heard.why })
    else if (heard.kind === 'wish') void this.#pass(heard.wish, listener)
    else if (heard.kind === 'show') this.#show(token, listener)
    else void this.#talk(token, listener)
  }

  #refuse(token: string): void {
    if (this.#refused.take()) this.#write(token, `${comeBack}\nrefused: ${tooMany}\n`, 'refusals')
  }

  async #pass({ token, to, hosts, reason, wait_s: seconds }: Wish, listener: Listener): Promise<void> {
    const began = () => this.#put(`${token}.asked`, '')
    const waiting: Waiting = { signal: this.#ending.signal, began }
    try {
      this.#answer(token, await this.#ask({ to, hosts, reason, waitMs: seconds * 1000 }, listener, waiting))
    } catch (error) {
      const isBusy = error instanceof OrangeryError && error.kind === 'busy'
      this.#answer(token, { status: 'refused', message: messageOf(error) }, isBusy ? comeBack : undefined)
    }
  }

  async #ask(asked: Asked, listener: Listener, waiting: Waiting): Promise<Answered> {
    const mayWait = this.#waiting < mostWaiting
    this.#waiting++
    try {
      return await listener.ask({ ...asked, waitMs: mayWait ? asked.waitMs : 0 }, waiting)
    } finally {
      this.#waiting--
    }
  }

  #show(token: string, listener: Listener): void {
    try {
      this.#write(token, `0\n${JSON.stringify(listener.show())}\n`)
    } catch (error) {
      this.#answer(token, { status: 'refused', message: messageOf(error) })
    }
  }

  /** Opens a pair of pipes over which somebody inside speaks MCP with us. */
  async #talk(token: string, listener: Listener): Promise<void> {
    if (this.#sessions.size >= mostSessions || this.#sessions.has(token)) {
      return this.#answer(token, { status: 'refused', message: 'too many MCP servers at once' }, comeBack)
    }
    const limited: Listener = {
      ask: async (asked, waiting) =>
        this.#asked.take() ? this.#ask(asked, listener, waiting) : { status: 'refused', message: tooMany },
      show: () => {
        if (!this.#shown.take()) throw new Error(tooMany)
        return listener.show()
      },
    }
    const opening = Session.open(
      join(this.#folder, 'sessions'),
      token,
      (send) => new McpServer(limited, this.#version, send),
      () => this.#sessions.delete(token),
    )
    this.#sessions.set(token, opening)
    try {
      await opening
      this.#write(token, `0\n`)
    } catch (error) {
      this.#sessions.delete(token)
      this.#answer(token, { status: 'refused', message: messageOf(error) })
    }
  }

  #answer(token: string, { status, message }: Answered, code = exitCodes[status]): void {
    this.#write(token, `${code}\n${status}: ${message}\n`)
  }

  #write(token: string, text: string, kind: keyof typeof kept = 'answers'): void {
    const written = this.#written[kind]
    written.push(token)
    const surplus = written.splice(0, Math.max(0, written.length - kept[kind]))
    this.#put(token, text, surplus)
  }

  #put(name: string, text: string, surplus: readonly string[] = []): void {
    const folder = join(this.#folder, 'answers')
    void this.#inTurn(async () => {
      await replace(join(folder, name), text, 0o644)
      const gone = surplus.flatMap((token) => [token, `${token}.asked`])
      await Promise.all(gone.map((each) => rm(join(folder, each), { force: true })))
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

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Made beside the folder that is on PATH: who calls it must not meet half of it. */
async function writeProgram(path: string, text: string): Promise<void> {
  const fresh = join(dirname(path), '..', 'program.new')
  await writeFile(fresh, text, { mode: 0o755 })
  await rename(fresh, path)
}

type DoorOptions = {
  readonly version: string
  /** Where the folder is seen inside. */
  readonly shownAt?: string
}

/** Makes the folder that is shown inside, still empty. */
export async function openDoor(folder: string, options: DoorOptions): Promise<Door> {
  await makeAfresh(folder)
  return new Door(folder, options)
}

/** Everything in the folder; gives the descriptor questions come through. */
async function furnish(folder: string, shownAt: string): Promise<number> {
  const pipe = join(folder, 'ask')
  const asker = async () => {
    await mkdir(join(folder, 'bin'), { mode: 0o755 })
    await writeFile(join(folder, 'bin', 'orangery-ask'), askScript(shownAt), { mode: 0o755 })
  }
  // Side by side: an agent waits for this.
  await Promise.all([
    makePipes(pipe),
    mkdir(join(folder, 'answers'), { mode: 0o755 }),
    mkdir(join(folder, 'sessions'), { mode: 0o755 }),
    mkdir(join(folder, 'commands'), { mode: 0o755 }),
    asker(),
    writeFile(join(folder, 'denied'), '', { mode: 0o644 }),
    writeFile(join(folder, 'mcp.json'), mcpConfig(shownAt), { mode: 0o644 }),
  ])
  // For both, so that it never ends: askers come and go.
  return promisify(open)(pipe, constants.O_RDWR | constants.O_NONBLOCK)
}

/** One that a killed supervisor left may be there still. */
async function makeAfresh(folder: string): Promise<void> {
  const make = () => mkdir(folder, { mode: 0o755 })
  await make().catch(async () => {
    await rm(folder, { recursive: true, force: true })
    await make()
  })
}

const longestName = 255

/** The program a listed command starts with; a path names a file and no word on PATH, and no program is called what no file can be. */
function programOf(command: string): readonly string[] {
  const name = command.trim().split(/\s+/)[0] ?? ''
  const isFile = !/[/\0]/.test(name) && Buffer.byteLength(name) <= longestName
  return isFile && name !== '' && name !== '.' && name !== '..' ? [name] : []
}
