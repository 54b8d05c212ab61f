import Sqlite, { type Database } from 'better-sqlite3'
import { randomBytes } from 'node:crypto'
import { readdir, readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { DispatchId } from '../../shared/ids.ts'
import { openStore } from './index.ts'
import { migrate } from './migrate.ts'
import { migrations, schemaVersion } from './migrations/index.ts'
import { aDispatch, anOutcome, scratchFolder } from './testing.ts'

let scope: AsyncDisposableStack
let dataDir: string
let path: string
beforeEach(async () => {
  scope = new AsyncDisposableStack()
  dataDir = scope.use(await scratchFolder()).path
  path = join(dataDir, 'orangery.db')
})
afterEach(() => scope.disposeAsync())

async function lay(fixture: 'v2' | 'v17', more = ''): Promise<void> {
  using database = disposable(new Sqlite(path))
  database.exec(await readFile(join(import.meta.dirname, 'fixtures', `${fixture}.sql`), 'utf8'))
  database.exec(more)
}

/** What another program made under our name, as of version 17. */
async function layOther(statements: string): Promise<void> {
  using database = disposable(new Sqlite(path))
  database.exec(statements)
  database.exec('CREATE VIEW broken AS SELECT * FROM nowhere')
  database.pragma('user_version = 17')
}

function schemaNow(): unknown[] {
  using database = disposable(new Sqlite(path, { readonly: true }))
  return [
    database.pragma('user_version', { simple: true }),
    ...database.prepare('SELECT * FROM sqlite_schema').all(),
  ]
}

function disposable(database: Database): Database & Disposable {
  return Object.assign(database, { [Symbol.dispose]: () => void database.close() })
}

function inspect<T>(file: string, look: (database: Database) => T): T {
  using database = disposable(new Sqlite(file, { readonly: true }))
  return look(database)
}

const version = (file = path) =>
  inspect(file, (database) => database.pragma('user_version', { simple: true }))
const columns = (file = path) =>
  inspect(file, (database) =>
    (database.pragma('table_info(dispatches)') as { name: string }[]).map((column) => column.name),
  )
const backups = async () => (await readdir(dataDir)).filter((name) => name.endsWith('.bak')).sort()
const schemaOf = (file = path) =>
  inspect(file, (database) =>
    database.prepare(`SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name`).all(),
  )

describe('migration from v17 to v18', () => {
  test.each([
    ['neither column is there', ''],
    ['sandbox_spec is already there', 'ALTER TABLE dispatches ADD COLUMN sandbox_spec TEXT'],
    ['sandbox_effective is already there', 'ALTER TABLE dispatches ADD COLUMN sandbox_effective TEXT'],
    [
      'both are already there, in other letters',
      'ALTER TABLE dispatches ADD COLUMN Sandbox_Spec TEXT; ALTER TABLE dispatches ADD COLUMN SANDBOX_EFFECTIVE TEXT',
    ],
  ])('adds its columns idempotently: %s', async (_, already) => {
    await lay('v17', already)
    const step = migrations.find((migration) => migration.version === 18)!
    using database = disposable(new Sqlite(path))
    await migrate(database, path, [step])
    const names = columns().map((name) => name.toLowerCase())
    expect(names.filter((name) => name === 'sandbox_spec')).toHaveLength(1)
    expect(names.filter((name) => name === 'sandbox_effective')).toHaveLength(1)
    expect(version()).toBe(18)
    database.pragma('user_version = 17')
    await migrate(database, path, [step])
    expect(columns().map((name) => name.toLowerCase())).toEqual(names)
  })

  test('a value that was in the column already is kept', async () => {
    await lay(
      'v17',
      `ALTER TABLE dispatches ADD COLUMN sandbox_spec TEXT;
       UPDATE dispatches SET sandbox_spec = '{"early":true}' WHERE id = '20250601100000-00a1'`,
    )
    await using store = await openStore(dataDir)
    expect(store.dispatches.get('20250601100000-00a1' as DispatchId).sandboxSpecText).toBe('{"early":true}')
  })
})

test('a database of v17 comes through with every row, column, table, index, view and trigger it had', async () => {
  await lay('v17')
  const before = inspect(path, (database) => ({
    rows: database.prepare('SELECT * FROM dispatches ORDER BY id').all() as Record<string, unknown>[],
    notes: database.prepare(`SELECT * FROM "other program's notes"`).all(),
  }))
  const schemaBefore = schemaOf().filter((each) => (each as { name: string }).name !== 'dispatches')
  await using store = await openStore(dataDir)
  expect(version()).toBe(schemaVersion)
  const rows = inspect(path, (database) => database.prepare('SELECT * FROM dispatches ORDER BY id').all())
  expect(rows).toMatchObject(before.rows)
  expect(
    inspect(path, (database) => database.prepare(`SELECT * FROM "other program's notes"`).all()),
  ).toEqual(before.notes)
  expect(schemaOf()).toEqual(expect.arrayContaining(schemaBefore))
  const old = store.dispatches.get('20250601100000-00a1' as DispatchId)
  expect(old).toMatchObject({
    sandbox: 'read-only',
    sandbox_spec: null,
    sandbox_effective: null,
    level: null,
  })
  expect(store.dispatches.children(old.id)).toEqual(['20250601110000-00b2'])
  expect(store.dispatches.unfinished().map((each) => each.id)).toEqual(['20250601120000-00c3'])
})

test('a database of v2 goes all the way, and its old rows live and are guarded like new ones', async () => {
  await lay('v2')
  await using store = await openStore(dataDir)
  expect(version()).toBe(schemaVersion)
  const id = '20240301090000-00b2' as DispatchId
  expect(store.dispatches.list({ limit: 9 }).map((row) => row.status)).toEqual(['running', 'completed'])
  expect(store.dispatches.finish(id, anOutcome({ status: 'interrupted' }))).toBe(true)
  expect(store.dispatches.finish(id, anOutcome())).toBe(false)
  expect(() => store.database.sqlite.exec('DELETE FROM dispatches')).toThrow(/never deleted/)
  store.dispatches.create(aDispatch({ sandboxSpec: '{}' }))
})

test('before each step a copy of the database as it was is kept beside it', async () => {
  await lay('v17')
  const rowsBefore = inspect(path, (database) => database.prepare('SELECT * FROM dispatches').all())
  await (await openStore(dataDir)).close()
  const kept = await backups()
  expect(kept.map((name) => /^orangery\.db\.v(\d+)\./.exec(name)?.[1])).toEqual(
    ['17', ...migrations.map((step) => String(step.version)).filter((each) => Number(each) > 17)].slice(
      0,
      -1,
    ),
  )
  const first = join(dataDir, kept[0]!)
  expect(version(first)).toBe(17)
  expect(columns(first)).not.toContain('sandbox_spec')
  expect(inspect(first, (database) => database.prepare('SELECT * FROM dispatches').all())).toEqual(rowsBefore)
  expect(inspect(first, (database) => database.pragma('integrity_check', { simple: true }))).toBe('ok')
})

test.each([2, 17, 18])('a database that only claims to be v%d is made what it claims', async (claimed) => {
  using database = disposable(new Sqlite(path))
  database.exec(`CREATE TABLE elsewhere (x); PRAGMA user_version = ${claimed}`)
  await using store = await openStore(dataDir)
  store.dispatches.create(aDispatch({ sandboxSpec: '{}' }))
  expect(store.dispatches.list({ limit: 9 })).toHaveLength(1)
})

test('rows of another program, with other types and ids, are listed, found and guarded', async () => {
  using database = disposable(new Sqlite(path))
  database.exec(`CREATE TABLE dispatches (id TEXT PRIMARY KEY, agent TEXT NOT NULL, status TEXT NOT NULL,
      sandbox TEXT, created_at INTEGER NOT NULL, completed_at INTEGER);
    INSERT INTO dispatches VALUES ('k3j9x2m1', 'codex', 'completed', 'workspace-write', 1700000000, 1700000100);
    PRAGMA user_version = 17`)
  await using store = await openStore(dataDir)
  const id = store.dispatches.resolve('k3j9')
  expect(store.dispatches.get(id)).toMatchObject({
    id: 'k3j9x2m1',
    status: 'completed',
    sandbox: 'workspace-write',
    created_at: '2023-11-14T22:13:20.000Z',
    sandbox_spec: null,
  })
  expect(() => store.database.sqlite.exec('DELETE FROM dispatches')).toThrow(/never deleted/)
  expect(store.database.sqlite.prepare('SELECT completed_at FROM dispatches').get()).toEqual({
    completed_at: 1700000100,
  })
  store.dispatches.create(aDispatch())
  expect(store.dispatches.list({ limit: 9 }).map((row) => row.agent)).toEqual(['command', 'codex'])
})

describe('guards hold in a database that came from elsewhere', () => {
  const addSpec = 'ALTER TABLE dispatches ADD COLUMN sandbox_spec TEXT COLLATE NOCASE'
  const row = `dispatches (id, status, created_at, name) VALUES ('new', 'starting', 'x', 'review')`

  test.each([
    [
      'a spec in a column that takes letters for the same',
      `${addSpec}; UPDATE dispatches SET sandbox_spec = '{"a":1}'`,
      'UPDATE dispatches SET sandbox_spec = upper(sandbox_spec)',
      /immutable/,
    ],
    [
      'the row before one with number -1',
      '',
      `INSERT INTO dispatches (rowid, id, status, created_at) VALUES (-1, 'new', 'starting', 'x')`,
      /never replaced/,
    ],
  ])('%s', async (_, before, attack, refusal) => {
    await lay('v17', before)
    await using store = await openStore(dataDir)
    expect(() => store.database.sqlite.exec(attack)).toThrow(refusal)
  })

  test('a replacing insert pushes nobody out, whatever another program allowed only once', async () => {
    await lay('v17', 'CREATE UNIQUE INDEX once ON dispatches (name) WHERE name IS NOT NULL')
    await using store = await openStore(dataDir)
    store.database.sqlite.exec(`INSERT OR REPLACE INTO ${row}`)
    expect(store.dispatches.list({ limit: 9 })).toHaveLength(4)
  })

  test('a replacing statement pushes nobody out by a constraint in the table of another program', async () => {
    const table = `CREATE TABLE dispatches (id TEXT PRIMARY KEY, agent TEXT,
      status TEXT NOT NULL, created_at TEXT NOT NULL, name TEXT UNIQUE, tag TEXT, UNIQUE (agent, tag));
      INSERT INTO dispatches VALUES ('a', 'x', 'completed', 'y', 'n', 't'), ('b', 'x', 'completed', 'y', 'm', 'u')`
    await layOther(table)
    await using store = await openStore(dataDir)
    const { sqlite } = store.database
    const all = () => sqlite.prepare('SELECT id, name, tag FROM dispatches ORDER BY id').all()
    const before = all()
    for (const statement of [
      `INSERT OR REPLACE INTO dispatches (id, status, created_at, name) VALUES ('z', 'starting', 'y', 'n')`,
      `INSERT OR REPLACE INTO dispatches (id, agent, status, created_at, tag) VALUES ('z', 'x', 'starting', 'y', 't')`,
      `UPDATE OR REPLACE dispatches SET tag = 't' WHERE id = 'b'`,
    ]) {
      expect(() => sqlite.exec(statement), statement).toThrow(/never replaced/)
    }
    expect(all()).toEqual(before)
    // The control: a value that nobody has is nobody's loss.
    sqlite.exec(`UPDATE dispatches SET tag = 'v' WHERE id = 'b'`)
    store.dispatches.create(aDispatch())
    expect(all()).toHaveLength(3)
  })

  test.each([
    ['a view', 'CREATE VIEW dispatches AS SELECT 1 AS id'],
    [
      'a table without row numbers',
      'CREATE TABLE dispatches (id TEXT PRIMARY KEY, status TEXT) WITHOUT ROWID',
    ],
    ['a table whose ids are numbers', 'CREATE TABLE dispatches (id INTEGER PRIMARY KEY, status TEXT)'],
    [
      'a table with a column that we cannot fill',
      'CREATE TABLE dispatches (id TEXT PRIMARY KEY, status TEXT, place TEXT NOT NULL)',
    ],
  ])('%s under our name is refused untouched, before a backup', async (_, statement) => {
    await layOther(statement)
    const before = schemaNow()
    await expect(openStore(dataDir)).rejects.toMatchObject({ code: 'store.name_taken', kind: 'refused' })
    expect(schemaNow()).toEqual(before)
    expect((await readdir(dataDir)).filter((name) => name.endsWith('.bak'))).toEqual([])
  })

  test('a row with number -1 is in nobody’s way', async () => {
    await lay(
      'v17',
      `INSERT INTO dispatches (rowid, id, status, created_at) VALUES (-1, '20250601130000-00d4', 'completed', 'x')`,
    )
    await using store = await openStore(dataDir)
    store.dispatches.create(aDispatch())
    expect(store.dispatches.list({ limit: 9 })).toHaveLength(5)
  })

  test('what another program recorded of a run before its end is kept when it ends', async () => {
    const early = `ALTER TABLE dispatches ADD COLUMN sandbox_effective TEXT;
      UPDATE dispatches SET sandbox_effective = '{"turns_used":3}' WHERE status = 'running'`
    await lay('v17', early)
    await using store = await openStore(dataDir)
    const [left] = store.dispatches.unfinished()
    expect(store.dispatches.finish(left!.id, { ...anOutcome(), effective: null })).toBe(true)
    expect(store.dispatches.get(left!.id).sandbox_effective).toEqual({ turns_used: 3 })
  })
})

test.each(['TABLE changes (x)', 'VIEW settings AS SELECT 1 AS x'])(
  'another program’s %s is in the way, said before anything is changed',
  async (taken) => {
    await lay('v17', `CREATE ${taken}`)
    const before = schemaOf()
    await expect(openStore(dataDir)).rejects.toThrow(/another program's/)
    expect(schemaOf()).toEqual(before)
    expect(version()).toBe(17)
    expect(await backups()).toEqual([])
  },
)

test('opening once more migrates nothing and keeps no further copy', async () => {
  await lay('v17')
  await (await openStore(dataDir)).close()
  const [kept, schema] = [await backups(), schemaOf()]
  await (await openStore(dataDir)).close()
  expect(await backups()).toEqual(kept)
  expect(schemaOf()).toEqual(schema)
})

test('a fresh database needs no copies of itself and equals a migrated one in all that is ours', async () => {
  await (await openStore(dataDir)).close()
  expect(await backups()).toEqual([])
  const fresh = schemaOf().filter((each) => (each as { type: string }).type !== 'table')
  await using other = await scratchFolder()
  dataDir = other.path
  path = join(dataDir, 'orangery.db')
  await lay('v2')
  await (await openStore(dataDir)).close()
  expect(schemaOf().filter((each) => (each as { type: string }).type !== 'table')).toEqual(fresh)
})

test('a step that fails leaves the version before it, whole, and its error', async () => {
  await lay('v17')
  using database = disposable(new Sqlite(path))
  const broken = {
    version: 18,
    name: 'broken',
    up: (each: Database) => {
      each.exec('ALTER TABLE dispatches ADD COLUMN half TEXT; DELETE FROM dispatches')
      each.exec('SELECT nonsense')
    },
  }
  const before = schemaOf()
  await expect(migrate(database, path, [broken])).rejects.toThrow(/nonsense/)
  expect(version()).toBe(17)
  expect(schemaOf()).toEqual(before)
  expect(inspect(path, (each) => each.prepare('SELECT count(*) AS n FROM dispatches').get())).toEqual({
    n: 3,
  })
})

test('two processes that migrate at the same time both end up with one whole database', async () => {
  await lay('v17')
  const stores = await Promise.all([openStore(dataDir), openStore(dataDir), openStore(dataDir)])
  for (const store of stores) expect(store.dispatches.list({ limit: 9 })).toHaveLength(3)
  await Promise.all(stores.map((store) => store.close()))
  expect(version()).toBe(schemaVersion)
})

describe('what cannot be opened is left as it is', () => {
  async function refused(): Promise<unknown> {
    const before = await readFile(path)
    const names = await readdir(dataDir)
    const error = await openStore(dataDir).then(
      async (store) => {
        await store.close()
        return null
      },
      (reason: unknown) => reason,
    )
    expect((await readFile(path)).equals(before)).toBe(true)
    expect(await readdir(dataDir)).toEqual(names)
    return error
  }

  test('a newer version than we know is refused and stays untouched', async () => {
    await lay('v17', `PRAGMA user_version = ${schemaVersion + 1}`)
    expect(await refused()).toMatchObject({ code: 'store.newer_version', exitCode: 77 })
  })

  test('a newer version that is still only in the log is refused too', async () => {
    await lay('v17', 'PRAGMA journal_mode = WAL')
    const newer = new Sqlite(path)
    newer.pragma(`user_version = 9999`)
    const [main, log] = [await readFile(path), await readFile(`${path}-wal`)]
    newer.close()
    await writeFile(path, main)
    await writeFile(`${path}-wal`, log)
    await expect(openStore(dataDir)).rejects.toMatchObject({ code: 'store.newer_version' })
    expect((await readFile(path)).equals(main)).toBe(true)
    expect((await readFile(`${path}-wal`)).equals(log)).toBe(true)
  })

  test('a file that is no database is refused and stays untouched', async () => {
    await writeFile(path, 'these are my notes, not a database\n'.repeat(100))
    expect(await refused()).toMatchObject({ code: 'store.corrupt', exitCode: 70 })
  })

  test('a database that lost its end is refused and stays untouched', async () => {
    await lay('v17')
    await truncate(path, 8192)
    expect(await refused()).toMatchObject({ code: 'store.corrupt' })
  })

  test('a damaged database is refused before anything is migrated, and not a byte of it changes', async () => {
    await lay('v17')
    const bytes = await readFile(path)
    randomBytes(4096).copy(bytes, 4096)
    await writeFile(path, bytes)
    expect(await refused()).toMatchObject({ code: 'store.corrupt' })
    expect(await backups()).toEqual([])
  })
})
