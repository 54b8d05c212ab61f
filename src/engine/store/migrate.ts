import Sqlite, { type Database } from 'better-sqlite3'
import { open, readdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { OrangeryError } from '../../shared/errors.ts'
import { syncDir } from '../base/files.ts'
import { corrupt } from './failures.ts'
import { migrations as allMigrations, type Migration } from './migrations/index.ts'

export const userVersion = (database: Database): number =>
  database.pragma('user_version', { simple: true }) as number

const newestOf = (steps: readonly Migration[]): number => Math.max(...steps.map((step) => step.version))

/** A database written by a newer release is not ours to touch: we would not know what we break. */
export function refuseNewer(
  path: string,
  version: number,
  steps: readonly Migration[] = allMigrations,
): void {
  const newest = newestOf(steps)
  if (version <= newest) return
  throw new OrangeryError(
    'store.newer_version',
    `${path}: written by a newer Orangery (version ${version}, this one knows ${newest})`,
    { kind: 'refused', hint: 'Update Orangery, or name another data folder with ORANGERY_DATA_DIR.' },
  )
}

/**
 * Brings the database to the newest version, one transaction and one backup per step. The write lock is held
 * from before the backup to the commit, so the copy is exactly what the step starts from and no second
 * process migrates at the same time.
 */
export async function migrate(
  database: Database,
  path: string,
  steps: readonly Migration[] = allMigrations,
): Promise<void> {
  const newest = newestOf(steps)
  while (userVersion(database) < newest) {
    database.exec('BEGIN IMMEDIATE')
    try {
      const version = userVersion(database)
      refuseNewer(path, version, steps)
      const due = steps.filter((step) => step.version > version)
      refuseTaken(database, path, version)
      if (due.length > 0) refuseUnusable(database, path)
      if (!hasTables(database)) {
        for (const step of due) take(database, step)
      } else if (due[0] !== undefined) {
        checkWhole(database, path)
        await backUp(path, version)
        take(database, due[0])
      }
      database.exec('COMMIT')
    } catch (error) {
      if (database.inTransaction) database.exec('ROLLBACK')
      throw error
    }
  }
}

type Tables = ReadonlyMap<string, readonly string[]>

/** Names in SQLite are the same in any case. Of others' views not even the columns are asked for: one may be broken. */
function tablesOf(database: Database, among: readonly string[] | null = null): Tables {
  const rows = database
    .prepare(
      `SELECT lower(s.name) AS name, lower(c.name) AS "column" FROM sqlite_schema s, pragma_table_xinfo(s.name) c
       WHERE s.type IN ('table', 'view')
         AND (@among IS NULL OR lower(s.name) IN (SELECT value FROM json_each(@among)))`,
    )
    .all({ among: among === null ? null : JSON.stringify(among) }) as { name: string; column: string }[]
  const tables = new Map<string, string[]>()
  for (const { name, column } of rows) tables.set(name, [...(tables.get(name) ?? []), column])
  return tables
}

/** By name: the version each table of ours came with, and the columns it has by now. */
type OwnTables = ReadonlyMap<string, { readonly since: number; readonly columns: readonly string[] }>

let ownTables: OwnTables | undefined

function findOwnTables(): OwnTables {
  const empty = new Sqlite(':memory:')
  try {
    const since = new Map<string, number>()
    for (const step of allMigrations) {
      step.up(empty)
      for (const name of tablesOf(empty).keys()) if (!since.has(name)) since.set(name, step.version)
    }
    return new Map(
      [...tablesOf(empty)].map(([name, columns]) => [name, { since: since.get(name) ?? 0, columns }]),
    )
  } finally {
    empty.close()
  }
}

/**
 * A table of another program under a name that we are about to use is not ours to change, and nothing of ours would
 * work on it. `dispatches` itself is brought to what we need, whatever it has.
 */
function refuseTaken(database: Database, path: string, version: number): void {
  if (!hasTables(database)) return
  ownTables ??= findOwnTables()
  for (const [name, found] of tablesOf(database, [...ownTables.keys()])) {
    const own = ownTables.get(name)
    if (own === undefined || own.since <= version || name === 'dispatches') continue
    if (own.columns.every((column) => found.includes(column))) continue
    throw new OrangeryError('store.name_taken', `${path}: its "${name}" is another program's`, {
      kind: 'refused',
      hint: 'Nothing was changed. Rename it, or name another data folder with ORANGERY_DATA_DIR.',
    })
  }
}

/** A `dispatches` that nothing of ours could be written to: better told before it is changed than at every run. */
function refuseUnusable(database: Database, path: string): void {
  const table = database.prepare(`SELECT type, wr FROM pragma_table_list('dispatches') WHERE schema = 'main'`)
  const found = table.get() as { type: string; wr: number } | undefined
  if (found === undefined) return
  const why = found.type === 'table' ? whyUnusable(database, found.wr === 1) : `it is a ${found.type}`
  if (why === null) return
  throw new OrangeryError('store.name_taken', `${path}: its "dispatches" is another program's: ${why}`, {
    kind: 'refused',
    hint: 'Nothing was changed. Rename it, or name another data folder with ORANGERY_DATA_DIR.',
  })
}

function whyUnusable(database: Database, hasNoRowNumbers: boolean): string | null {
  if (hasNoRowNumbers) return 'its rows have no numbers'
  const columns = database.prepare(`SELECT * FROM pragma_table_xinfo('dispatches')`).all() as {
    name: string
    type: string
    notnull: number
    dflt_value: string | null
    pk: number
  }[]
  if (columns.some(({ name, type, pk }) => name.toLowerCase() === 'id' && pk > 0 && /^integer$/i.test(type)))
    return 'its ids are numbers'
  ownTables ??= findOwnTables()
  const own = ownTables.get('dispatches')?.columns ?? []
  const foreign = columns.find(
    ({ name, notnull, dflt_value: usual, pk }) =>
      notnull === 1 && usual === null && pk === 0 && !own.includes(name.toLowerCase()),
  )
  return foreign === undefined ? null : `its column "${foreign.name}" may not be left empty`
}

function take(database: Database, step: Migration): void {
  step.up(database)
  database.pragma(`user_version = ${step.version}`)
}

const hasTables = (database: Database): boolean =>
  database.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() !== undefined

export function checkWhole(database: Database, path: string): void {
  const found = database.pragma('quick_check(1)', { simple: true }) as string
  if (found !== 'ok') throw corrupt(path, found)
}

/** Copies the database as committed. The name says the version and when; nothing ever overwrites a backup. */
async function backUp(path: string, version: number): Promise<void> {
  const stamp = new Date().toISOString().replaceAll(/[-:.]/g, '')
  const target = `${path}.v${version}.${stamp}.bak`
  const unfinished = `${target}.tmp`
  await removeUnfinished(path)
  // Its own connection: the migrating one holds the write lock, which a reader does not mind.
  const source = new Sqlite(path, { readonly: true })
  try {
    await (await open(unfinished, 'wx', 0o600)).close()
    await source.backup(unfinished)
    const copy = await open(unfinished, 'r+')
    try {
      await copy.sync()
    } finally {
      await copy.close()
    }
    await rename(unfinished, target)
    await syncDir(dirname(path))
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  } finally {
    source.close()
  }
}

/** Copies that a crash cut short. Whoever calls holds the write lock, so nobody is writing one now. */
async function removeUnfinished(path: string): Promise<void> {
  const name = basename(path)
  const leftovers = (await readdir(dirname(path))).filter(
    (entry) => entry.startsWith(`${name}.v`) && /\.bak\.tmp(-journal|-wal|-shm)?$/.test(entry),
  )
  await Promise.all(leftovers.map((entry) => rm(join(dirname(path), entry), { force: true })))
}
