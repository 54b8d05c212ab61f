import Database from 'better-sqlite3'
import { readFile, rm, writeFile } from 'node:fs/promises'
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
const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,120}$/

/** Holders and waiters of this process, in order of arrival; other processes are met at the kernel's lock. */
const queues = new Map<string, Promise<void>>()

/**
 * A lock between processes that dies with its holder: an exclusive transaction on an empty SQLite file, which
 * is a lock of the kernel on Linux and macOS alike. Nothing is ever written to the file, so there is nothing
 * to recover; a `kill -9` frees it at once. Waiting never blocks the event loop.
 */
export function createRepoLock(layout: Pick<Layout, 'locks'>): RepoLock {
  async function acquire(name: string, options: AcquireOptions = {}): Promise<AsyncDisposable> {
    if (!namePattern.test(name)) throw new OrangeryError('lock.bad_name', `lock ${name}: not a lock's name`)
    await ensurePrivateDir(layout.locks)
    const path = join(layout.locks, `${name}.lock`)
    const deadline = performance.now() + (options.timeoutMs ?? defaultTimeoutMs)
    const leave = await enterQueue(path, deadline, options.signal)
    let database: Database.Database
    try {
      database = await lockFile(path, deadline, options.signal)
    } catch (error) {
      leave()
      throw error
    }
    // Only for the sentence a waiter reads; a stale one does no harm.
    await writeFile(
      `${path}.holder`,
      JSON.stringify({ pid: process.pid, since: new Date().toISOString() }),
    ).catch(() => {})
    let held = true
    return {
      async [Symbol.asyncDispose]() {
        if (!held) return
        held = false
        await rm(`${path}.holder`, { force: true }).catch(() => {})
        database.close()
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

async function lockFile(path: string, deadline: number, signal?: AbortSignal): Promise<Database.Database> {
  for (let pause = 2; ; pause = Math.min(pause * 1.5, 40)) {
    const database = new Database(path, { timeout: 0 })
    try {
      database.exec('BEGIN EXCLUSIVE')
      return database
    } catch (error) {
      database.close()
      if (!isBusy(error)) {
        throw new OrangeryError('lock.unusable', `lock ${path}: ${(error as Error).message}`, {
          hint: 'The data folder must lie on a filesystem that supports file locks.',
          cause: error,
        })
      }
    }
    if (performance.now() + pause > deadline) throw await busy(path)
    await sleep(pause * (0.5 + Math.random()), undefined, signal === undefined ? {} : { signal })
  }
}

function isBusy(error: unknown): boolean {
  return String((error as { code?: unknown }).code ?? '').startsWith('SQLITE_BUSY')
}

async function busy(path: string): Promise<OrangeryError> {
  const holder = await readFile(`${path}.holder`, 'utf8')
    .then(
      (text) => JSON.parse(text) as { pid?: number },
      () => null,
    )
    .catch(() => null)
  const who = holder?.pid === undefined ? 'another process' : `process ${holder.pid}`
  return new OrangeryError('lock.busy', `the project is busy: ${who} holds its lock`, {
    kind: 'busy',
    hint: 'Try again in a moment.',
  })
}
