import type { Database } from 'better-sqlite3'
import { watch, type FSWatcher } from 'node:fs'
import { basename, dirname } from 'node:path'

type Listener = (ids: readonly string[]) => void

/** A hint comes with a commit's first write, but the commit counts once the disk has it: a slow one is looked for again. */
const looksAfterHintMs = [25, 50, 100, 200]
const pollMs = 1_000

/**
 * Says which dispatches changed. Our own writes at once; those of other processes when the folder's watcher
 * hints at them, and at the latest with the next poll, because watchers may be missing or lose events.
 */
export class ChangeFeed {
  readonly #database: Database
  readonly #path: string
  readonly #listeners = new Set<Listener>()
  readonly #own = new Set<string>()
  #seen = 0
  #dataVersion = 0
  #watcher: FSWatcher | undefined
  #poll: NodeJS.Timeout | undefined
  #hint: NodeJS.Timeout | undefined
  /** How often we looked since the newest hint. */
  #looks = 0

  constructor(database: Database, path: string) {
    this.#database = database
    this.#path = path
  }

  listen(listener: Listener): () => void {
    // A wrapper of its own, so that one function given twice is two listeners.
    const entry: Listener = (ids) => listener(ids)
    if (this.#listeners.size === 0) this.#start()
    this.#listeners.add(entry)
    return () => {
      if (this.#listeners.delete(entry) && this.#listeners.size === 0) this.#stop()
    }
  }

  /** Called after each of our own commits. Writes of one turn are told together. */
  wrote(id: string): void {
    if (this.#listeners.size === 0) return
    if (this.#own.size === 0) queueMicrotask(() => this.#tellOwn())
    this.#own.add(id)
  }

  close(): void {
    this.#listeners.clear()
    this.#stop()
  }

  #tellOwn(): void {
    const ids = [...this.#own]
    this.#own.clear()
    this.#tell(ids)
  }

  #tell(ids: readonly string[]): void {
    for (const listener of this.#listeners) {
      // One listener's failure is not the writer's, nor the next listener's.
      try {
        listener(ids)
      } catch (error) {
        process.emitWarning(error instanceof Error ? error : String(error))
      }
    }
  }

  #start(): void {
    // In this order a commit between the two was there before we listened; in the other it would wait for the next.
    this.#dataVersion = this.#currentDataVersion()
    this.#seen = this.#newest()
    const name = basename(this.#path)
    try {
      this.#watcher = watch(dirname(this.#path), { persistent: false }, (_, file) => {
        if (file === null || file.startsWith(name)) this.#hinted()
      })
      this.#watcher.on('error', () => this.#watcher?.close())
    } catch {
      // Out of watches: the poll alone is the truth anyway.
    }
    // Keeps the process alive: whoever listens waits for something.
    this.#poll = setInterval(() => this.#look(), pollMs)
  }

  #stop(): void {
    this.#watcher?.close()
    this.#watcher = undefined
    clearInterval(this.#poll)
    clearTimeout(this.#hint)
    this.#hint = undefined
  }

  #hinted(): void {
    this.#looks = 0
    if (this.#hint === undefined) this.#lookSoon()
  }

  #lookSoon(): void {
    const delay = looksAfterHintMs[this.#looks++]
    if (delay === undefined) return
    this.#hint = setTimeout(() => {
      this.#hint = undefined
      this.#look()
      this.#lookSoon()
    }, delay)
  }

  /** `data_version` moves only when another connection committed, so a quiet look costs microseconds. */
  #look(): void {
    if (!this.#database.open) return
    const version = this.#currentDataVersion()
    if (version === this.#dataVersion) return
    this.#dataVersion = version
    const rows = this.#database
      .prepare('SELECT max(seq) AS seq, dispatch_id AS id FROM changes WHERE seq > ? GROUP BY dispatch_id')
      .all(this.#seen) as { seq: number; id: string }[]
    if (rows.length === 0) return
    this.#seen = rows.reduce((newest, row) => Math.max(newest, row.seq), this.#seen)
    this.#tell(rows.map((row) => row.id))
  }

  #currentDataVersion(): number {
    return this.#database.pragma('data_version', { simple: true }) as number
  }

  #newest(): number {
    const row = this.#database.prepare('SELECT max(seq) AS seq FROM changes').get() as { seq: number | null }
    return row.seq ?? 0
  }
}
