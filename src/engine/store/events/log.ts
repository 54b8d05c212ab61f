import { constants } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import type { EventBody, EventType, LoggedEvent } from '../../../shared/events.ts'
import { ensurePrivateDir, syncDir } from '../../base/files.ts'
import { chainStart, sealEvent } from './chain.ts'
import { repairTail } from './repair.ts'

export interface EventLog extends AsyncDisposable {
  /** Takes its place in the chain at once; reaches the file with the next batch. */
  append(body: EventBody): LoggedEvent
  readonly lastHash: string
  /** Bytes appended and not yet written: who produces faster than the disk waits for `flush`. */
  readonly backlog: number
  /** Resolves when everything appended before is in the file. */
  flush(): Promise<void>
  close(): Promise<void>
}

/** After these, a power cut must not find the log without them. */
const important: ReadonlySet<EventType> = new Set([
  'DispatchStarting',
  'SelfProbe',
  'AgentStarted',
  'BoundaryRequested',
  'BoundaryDenied',
  'BoundaryEscalated',
  'BoundaryKept',
  'Violated',
  'AgentEnded',
  'DispatchEnded',
  'LogRepaired',
])

const batchDelayMs = 10

class FileEventLog implements EventLog {
  readonly #path: string
  readonly #file: FileHandle
  #seq: number
  #lastHash: string
  #waiting: Buffer[] = []
  #backlog = 0
  #mustSync = false
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> = Promise.resolve()
  #closed = false

  constructor(path: string, file: FileHandle, last: LoggedEvent | null) {
    this.#path = path
    this.#file = file
    this.#seq = last?.seq ?? 0
    this.#lastHash = last?.hash ?? chainStart
  }

  get lastHash(): string {
    return this.#lastHash
  }

  get backlog(): number {
    return this.#backlog
  }

  append(body: EventBody): LoggedEvent {
    if (this.#closed) throw new OrangeryError('events.closed', `${this.#path}: the event log is closed`)
    const { logged, line } = sealEvent(this.#seq + 1, new Date().toISOString(), this.#lastHash, body)
    this.#seq = logged.seq
    this.#lastHash = logged.hash
    const bytes = Buffer.from(line, 'utf8')
    this.#waiting.push(bytes)
    this.#backlog += bytes.length
    if (important.has(body.type)) this.#mustSync = true
    // A failed write is told to whoever flushes or closes; its bytes wait for the next attempt.
    this.#timer ??= setTimeout(() => this.flush().catch(() => {}), batchDelayMs)
    return logged
  }

  flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#writing = this.#writing.catch(() => {}).then(() => this.#write())
    return this.#writing
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#mustSync = true
    try {
      await this.flush()
    } finally {
      await this.#file.close()
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #write(): Promise<void> {
    const sync = this.#mustSync
    this.#mustSync = false
    let batch: Buffer = Buffer.concat(this.#waiting)
    this.#waiting = []
    try {
      while (batch.length > 0) {
        const { bytesWritten } = await this.#file.write(batch)
        this.#backlog -= bytesWritten
        batch = batch.subarray(bytesWritten)
      }
      if (sync) await this.#file.datasync()
    } catch (error) {
      // Exactly the bytes that did not get there come first next time: a full disk tears no line.
      if (batch.length > 0) this.#waiting.unshift(batch)
      this.#mustSync ||= sync
      throw new OrangeryError(
        'events.unwritable',
        `${this.#path}: cannot write the event log (${(error as Error).message})`,
        { kind: 'cannot_create', hint: 'Leave room on the disk of the data folder.', cause: error },
      )
    }
  }
}

/**
 * Opens the event log of one dispatch for writing, creating it where there is none. A line that a crash tore
 * is moved beside the file, and the next event says so; the chain goes on from the last whole one. Where that is
 * not what was written, the log is refused and stays as it is. One writer at a time: its supervisor.
 */
export async function createEventLog(
  path: string,
  { synced = true }: { /** False: the caller syncs the folder. */ readonly synced?: boolean } = {},
): Promise<EventLog> {
  await ensurePrivateDir(dirname(path))
  const { O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW, O_RDWR } = constants
  const flags = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW
  // What was not there needs no repair: an agent waits for this.
  const made = await open(path, flags | O_EXCL, 0o600).catch(() => null)
  const file = made ?? (await open(path, flags, 0o600))
  try {
    const { last, torn } = made === null ? await repairTail(path, file) : { last: null, torn: null }
    if (synced) await syncDir(dirname(path))
    const log = new FileEventLog(path, file, last)
    if (torn !== null) log.append({ type: 'LogRepaired', ...torn })
    return log
  } catch (error) {
    await file.close()
    throw error
  }
}
