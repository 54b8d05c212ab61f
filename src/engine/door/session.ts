import { close, constants, open } from 'node:fs'
import { rm } from 'node:fs/promises'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { StringDecoder } from 'node:string_decoder'
import { promisify } from 'node:util'
import { makePipes } from './pipes.ts'

const openFile = promisify(open)
const closeFile = promisify(close)

/** Nobody inside needs to say more than this in one line, or in one second. */
const longestMessage = 64 * 1024
const mostBytes = 64 * 1024
const breathMs = 1_000
/** Who does not read what we say is not spoken to any longer. */
const mostUnread = 1024 * 1024
/** Who asked for a session and does not come is not waited for. */
const comingMs = 30_000
const partingMs = 1_000

export type Speaker = Disposable & {
  receive(line: string): void
  refuseLong(): void
}

/**
 * A conversation with somebody inside, over a pair of pipes that are there for it alone. It is over when they
 * close theirs, and with the door.
 */
export class Session implements AsyncDisposable {
  readonly #paths: readonly [string, string]
  readonly #incoming: Socket
  readonly #outgoing: Socket
  readonly #keepers: number[]
  readonly #coming: NodeJS.Timeout
  readonly #speaker: Speaker
  readonly #ended: () => void
  readonly #decoder = new StringDecoder('utf8')
  #rest = ''
  #skips = false
  #taken = 0
  #isOver = false

  /** Makes the pipes in `folder`, which is read-only inside. */
  static async open(
    folder: string,
    name: string,
    speaker: (send: (line: string) => void) => Speaker,
    ended: () => void,
  ): Promise<Session> {
    const paths = [join(folder, `${name}.in`), join(folder, `${name}.out`)] as const
    await makePipes(...paths)
    const unblocked = constants.O_NONBLOCK
    // Held open for both ends until the other side has come: else ours would end, or not open at all.
    const keepers = await Promise.all(paths.map((path) => openFile(path, constants.O_RDWR | unblocked)))
    const [incoming, outgoing] = await Promise.all([
      openFile(paths[0], constants.O_RDONLY | unblocked),
      openFile(paths[1], constants.O_WRONLY | unblocked),
    ])
    return new Session(paths, keepers, incoming, outgoing, speaker, ended)
  }

  private constructor(
    paths: readonly [string, string],
    keepers: number[],
    incoming: number,
    outgoing: number,
    speaker: (send: (line: string) => void) => Speaker,
    ended: () => void,
  ) {
    this.#paths = paths
    this.#keepers = keepers
    this.#ended = ended
    this.#outgoing = new Socket({ fd: outgoing, readable: false, writable: true })
    this.#incoming = new Socket({ fd: incoming, readable: true, writable: false })
    this.#speaker = speaker((line) => this.#send(line))
    this.#coming = setTimeout(() => this.#end(), comingMs)
    this.#coming.unref()
    this.#outgoing.on('error', () => this.#end())
    this.#incoming.on('error', () => this.#end())
    this.#incoming.on('end', () => this.#end())
    this.#incoming.on('data', (chunk: Buffer) => this.#read(chunk))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end()
    this.#outgoing.destroy()
    await Promise.all(this.#paths.map((path) => rm(path, { force: true })))
  }

  #read(chunk: Buffer): void {
    if (this.#isOver) return
    this.#came()
    this.#taken += chunk.length
    if (this.#taken > mostBytes && !this.#incoming.isPaused()) {
      this.#incoming.pause()
      setTimeout(() => {
        this.#taken = 0
        this.#incoming.resume()
      }, breathMs).unref()
    }
    const lines = (this.#rest + this.#decoder.write(chunk)).split('\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines) {
      if (this.#skips || line.length > longestMessage) this.#speaker.refuseLong()
      else this.#speaker.receive(line)
      this.#skips = false
    }
    if (this.#rest.length > longestMessage) {
      this.#rest = ''
      this.#skips = true
    }
  }

  #came(): void {
    clearTimeout(this.#coming)
    for (const keeper of this.#keepers.splice(0)) void closeFile(keeper).catch(() => {})
  }

  #send(line: string): void {
    if (this.#isOver) return
    this.#outgoing.write(`${line}\n`)
    if (this.#outgoing.writableLength > mostUnread) this.#end()
  }

  #end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#came()
    this.#speaker[Symbol.dispose]()
    this.#incoming.destroy()
    this.#outgoing.end()
    setTimeout(() => this.#outgoing.destroy(), partingMs).unref()
    void Promise.all(this.#paths.map((path) => rm(path, { force: true }))).catch(() => {})
    this.#ended()
  }
}
