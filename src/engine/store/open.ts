import Sqlite, { type Database } from 'better-sqlite3'
import { open, stat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { ensurePrivateDir } from '../base/files.ts'
import { layout } from '../base/paths.ts'
import { corrupt, isBusy, storeFailure } from './failures.ts'
import { checkWhole, migrate, refuseNewer, userVersion } from './migrate.ts'

/** How long a single write waits for another process's. */
const busyTimeoutMs = 10_000
/** How long opening waits for another process's migration. */
const openPatienceMs = 60_000
const keptChanges = 10_000

/** Opens the database of a data folder, creating and migrating as needed. Failures are told in our words. */
export async function openDatabase(dataDir: string): Promise<{ sqlite: Database; path: string }> {
  const path = layout(dataDir).database
  try {
    await ensurePrivateDir(dataDir)
    await createPrivately(path)
    return { sqlite: await untilNotBusy(() => openAndMigrate(path)), path }
  } catch (error) {
    throw storeFailure(path, error)
  }
}

/** The prompts and specs in it are nobody else's business; SQLite gives `-wal` and `-shm` the same mode. */
async function createPrivately(path: string): Promise<void> {
  const handle = await open(path, 'a', 0o600)
  await handle.close()
}

/**
 * Looks before anything is opened for writing, which would already recover or checkpoint the log of a database
 * that turns out to be damaged or too new for us.
 */
async function refuseUntouched(path: string): Promise<void> {
  const header = await readHeader(path)
  if (header.length === 0) return
  if (header.length < 100 || !header.subarray(0, magic.length).equals(magic)) {
    throw corrupt(path, 'this is not an SQLite database')
  }
  refuseNewer(path, header.readInt32BE(userVersionOffset))
  // The newest commits may still be in the log, which only SQLite can read.
  const log = await stat(`${path}-wal`).catch(() => null)
  if (log === null || log.size === 0) return
  const probe = new Sqlite(path, { readonly: true, timeout: 0 })
  try {
    refuseNewer(path, userVersion(probe))
  } finally {
    probe.close()
  }
}

const magic = Buffer.from('SQLite format 3\0', 'latin1')
const userVersionOffset = 60

async function readHeader(path: string): Promise<Buffer> {
  const file = await open(path, 'r')
  try {
    const header = Buffer.alloc(100)
    const { bytesRead } = await file.read(header, 0, header.length, 0)
    return header.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}

async function openAndMigrate(path: string): Promise<Database> {
  await refuseUntouched(path)
  // Not SQLite's own waiting, which stops the whole process: another one may be migrating at length.
  const database = new Sqlite(path, { timeout: 0 })
  try {
    // The switch writes into the header, and what is damaged stays as it is.
    if (database.pragma('journal_mode', { simple: true }) !== 'wal') checkWhole(database, path)
    database.pragma('journal_mode = WAL')
    // An audit record outlives a power cut: each commit is on disk when it returns.
    database.pragma('synchronous = FULL')
    database.pragma('foreign_keys = ON')
    // Deletes done by REPLACE then fire the delete triggers too.
    database.pragma('recursive_triggers = ON')
    await migrate(database, path)
    database.pragma(`busy_timeout = ${busyTimeoutMs}`)
    forgetOldChanges(database)
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

/** Who listens reads the newest changes within a second; the old ones have told everyone who wanted to know. */
function forgetOldChanges(database: Database): void {
  const bounds = 'SELECT (SELECT min(seq) FROM changes) AS oldest, (SELECT max(seq) FROM changes) AS newest'
  const { oldest, newest } =
    database.prepare<[], { oldest: number | null; newest: number | null }>(bounds).get() ?? {}
  if (oldest == null || newest == null || newest - oldest < 2 * keptChanges) return
  database.prepare('DELETE FROM changes WHERE seq <= ?').run(newest - keptChanges)
}

/** Waits for whoever creates, switches to WAL or migrates at the same moment, without stopping the process. */
async function untilNotBusy<T>(attempt: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + openPatienceMs
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      if (!isBusy(error) || Date.now() > deadline) throw error
      await sleep(10 + Math.random() * 40)
    }
  }
}
