import Database from 'better-sqlite3'
import { closeSync, fstatSync, openSync, rmSync, statSync } from 'node:fs'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { OrangeryError } from '../../shared/errors.ts'
import { ensurePrivateDir } from './files.ts'
import type { Layout } from './paths.ts'

export type AcquireOptions = {
  /** How long to wait for whoever holds it; 0 tries once. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

export interface RepoLock {
  acquire(name: string, options?: AcquireOptions): Promise<AsyncDisposable>
  /** Acquires if nobody holds it, otherwise null at once. */
  tryAcquire(name: string): Promise<AsyncDisposable | null>
}

const defaultTimeoutMs = 10_000
/** Who holds a lock this long is written down for those who wait; most are free again by then. */
const tellAfterMs = 50
const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,120}$/

/** Holders and waiters of this process, in order of arrival; other processes are met at the kernel's lock. */
const queues = new Map<string, Promise<void>>()

/**
 * A lock between processes that dies with its holder: an exclusive transaction on an empty SQLite file, which
 * is a lock of the kernel on Linux and macOS alike. Nothing is ever written to the file, so there is nothing
 * to recover; a `kill -9` frees it at once. Waiting never blocks the event loop. The file goes with the
 * holder's release, so that locks named after a dispatch do not pile up.
 */
export function createRepoLock(layout: Pick<Layout, 'locks'>): RepoLock {
  async function acquire(name: string, options: AcquireOptions = {}): Promise<AsyncDisposable> {
    if (!namePattern.test(name)) throw new OrangeryError('lock.bad_name', `lock ${name}: not a lock's name`)
    const path = join(layout.locks, `${name}.lock`)
    const deadline = performance.now() + (options.timeoutMs ?? defaultTimeoutMs)
    const leave = await enterQueue(path, deadline, options.signal)
    let locked: Held
    try {
      locked = await lockFile(layout.locks, path, deadline, options.signal)
    } catch (error) {
      leave()
      throw error
    }
    const told = tellWaiters(path)
    let held = true
    return {
      async [Symbol.asyncDispose]() {
        if (!held) return
        held = false
        await told.withdraw()
        // Removed while it is still ours; whoever has it open finds another file at the path and tries again.
        rmSync(path, { force: true })
        locked.close()
        leave()
      },
    }
  }

  async function tryAcquire(name: string): Promise<AsyncDisposable | null> {
    try {
      return await acquire(name, { timeoutMs: 0 })
    } catch (error) {
      if (error instanceof OrangeryError && error.kind === 'busy') return null
      throw error
    }
  }

  return { acquire, tryAcquire }
}

/** Takes away what killed holders left: the file itself, and the word to those who waited. */
export async function sweepLocks(
  layout: Pick<Layout, 'locks'>,
  alsoOf: (name: string) => readonly string[] = () => [],
): Promise<void> {
  const files = await readdir(layout.locks).catch((): string[] => [])
  const names = new Set(files.map((file) => file.replace(/\.(?:lock(?:-journal|\.holder)?|json)$/, '')))
  const locks = createRepoLock(layout)
  for (const name of names) {
    if (!namePattern.test(name)) continue
    // Whoever gets the lock knows that nobody else has it: what lies beside it is a dead holder's.
    await using held = await locks.tryAcquire(name)
    if (held === null) continue
    for (const end of ['.lock-journal', '.lock.holder']) {
      await rm(join(layout.locks, `${name}${end}`), { force: true })
    }
    for (const path of alsoOf(name)) await rm(path, { force: true })
  }
}

async function enterQueue(path: string, deadline: number, signal?: AbortSignal): Promise<() => void> {
  const before = queues.get(path)
  const { promise: mine, resolve: leave } = Promise.withResolvers<void>()
  const tail = (before ?? Promise.resolve()).then(() => mine)
  queues.set(path, tail)
  void tail.finally(() => {
    if (queues.get(path) === tail) queues.delete(path)
  })
  if (before === undefined) return leave
  const gaveUp = new AbortController()
  const patience = sleep(Math.max(0, deadline - performance.now()), 'late' as const, {
    signal: signal === undefined ? gaveUp.signal : AbortSignal.any([gaveUp.signal, signal]),
  })
  try {
    if ((await Promise.race([before, patience])) === 'late') throw await busy(path)
    return leave
  } catch (error) {
    leave()
    throw error
  } finally {
    gaveUp.abort()
    patience.catch(() => {})
  }
}

async function lockFile(folder: string, path: string, deadline: number, signal?: AbortSignal): Promise<Held> {
  for (let pause = 2; ; pause = Math.min(pause * 1.5, 40)) {
    const attempt = tryLock(path)
    if (typeof attempt !== 'string') return attempt
    if (attempt === 'no folder') await ensurePrivateDir(folder)
    if (attempt !== 'busy') {
      // Whoever took the file away was done with it: the next attempt meets a new one.
      if (performance.now() > deadline + defaultTimeoutMs) throw await busy(path)
      await sleep(0)
      continue
    }
    if (performance.now() + pause > deadline) throw await busy(path)
    await sleep(pause * (0.5 + Math.random()), undefined, signal === undefined ? {} : { signal })
  }
}

/** `close` frees the lock. */
type Held = { close(): void }

/** One attempt, in a fraction of a millisecond: all of its calls are small and none of them waits. */
function tryLock(path: string): Held | 'busy' | 'replaced' | 'no folder' {
  let file: number
  try {
    file = openSync(path, 'a', 0o600)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT')
      return statSync(join(path, '..'), { throwIfNoEntry: false }) ? 'replaced' : 'no folder'
    throw unusable(path, error)
  }
  let database: Database.Database | undefined
  const held: Held = {
    close() {
      database?.close()
      // Last: closing any descriptor of a file frees what this process has locked of it.
      closeSync(file)
    },
  }
  // While it is open its number cannot go to another file: if that is at the path now it has been all the time, and is
  // what was locked. Else two could each hold a file of the same number.
  const isStill = () => statSync(path, { throwIfNoEntry: false })?.ino === fstatSync(file).ino
  try {
    database = new Database(path, { timeout: 0 })
    // Of a journal on disk a killed holder would leave the file.
    database.pragma('journal_mode = MEMORY')
    database.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    const isSame = isStill()
    held.close()
    if (isBusy(error)) return 'busy'
    // SQLite notices a file that was taken away and calls it a disk error.
    if (!isSame) return 'replaced'
    throw unusable(path, error)
  }
  if (isStill()) return held
  held.close()
  return 'replaced'
}

function unusable(path: string, error: unknown): OrangeryError {
  return new OrangeryError('lock.unusable', `lock ${path}: ${(error as Error).message}`, {
    hint: 'The data folder must be yours to write and lie on a filesystem that supports file locks.',
    cause: error,
  })
}

function isBusy(error: unknown): boolean {
  return String((error as { code?: unknown }).code ?? '').startsWith('SQLITE_BUSY')
}

/** Only for the sentence a waiter reads; a stale one does no harm. */
function tellWaiters(path: string): { withdraw(): Promise<void> } {
  let told: Promise<void> | undefined
  const timer = setTimeout(() => {
    const holder = JSON.stringify({ pid: process.pid, since: new Date().toISOString() })
    told = writeFile(`${path}.holder`, holder, { mode: 0o600 }).catch(() => {})
  }, tellAfterMs).unref()
  return {
    async withdraw() {
      clearTimeout(timer)
      if (told === undefined) return
      await told
      await rm(`${path}.holder`, { force: true }).catch(() => {})
    },
  }
}

async function busy(path: string): Promise<OrangeryError> {
  const holder = await readFile(`${path}.holder`, 'utf8')
    .then((text) => JSON.parse(text) as { pid?: number })
    .catch(() => null)
  const who = holder?.pid === undefined ? 'another process' : `process ${holder.pid}`
  return new OrangeryError('lock.busy', `the project is busy: ${who} holds its lock`, {
    kind: 'busy',
    hint: 'Try again in a moment.',
  })
}
