import Sqlite from 'better-sqlite3'
import { chmod, mkdir, readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openStore } from './index.ts'
import { aDispatch, scratchFolder } from './testing.ts'

let scope: AsyncDisposableStack
let folder: string
beforeEach(async () => {
  scope = new AsyncDisposableStack()
  folder = scope.use(await scratchFolder()).path
})
afterEach(() => scope.disposeAsync())

test('a fresh data folder and its database are closed to everyone else', async () => {
  const dataDir = join(folder, 'deep', 'data')
  await using store = await openStore(dataDir)
  store.dispatches.create(aDispatch())
  expect((await stat(dataDir)).mode & 0o777).toBe(0o700)
  for (const name of await readdir(dataDir)) {
    expect((await stat(join(dataDir, name))).mode & 0o777, name).toBe(0o600)
  }
})

test('an empty file is a database to be made', async () => {
  await writeFile(join(folder, 'orangery.db'), '')
  await using store = await openStore(folder)
  expect(store.dispatches.list({ limit: 1 })).toEqual([])
})

test('a data folder that cannot be made says so, with a way out', async () => {
  await writeFile(join(folder, 'file'), '')
  await expect(openStore(join(folder, 'file', 'data'))).rejects.toMatchObject({
    code: 'store.unwritable',
    exitCode: 73,
    message: expect.stringMatching(/^[^\n]+$/),
    hint: expect.stringContaining('ORANGERY_DATA_DIR'),
  })
})

test('a folder where the database should be says so', async () => {
  await mkdir(join(folder, 'orangery.db'))
  await expect(openStore(folder)).rejects.toMatchObject({ code: 'store.unwritable' })
})

test('a folder we may not write to says so', async (context) => {
  if (process.getuid?.() === 0) return context.skip('root may write where nobody may')
  await chmod(folder, 0o500)
  await expect(openStore(folder)).rejects.toMatchObject({ code: 'store.unwritable', exitCode: 73 })
  await chmod(folder, 0o700)
})

test('each commit is on disk when it returns, and REPLACE fires the guards', async () => {
  await using store = await openStore(folder)
  const setting = (name: string) => store.database.sqlite.pragma(name, { simple: true })
  expect(setting('journal_mode')).toBe('wal')
  expect(setting('synchronous')).toBe(2)
  expect(setting('recursive_triggers')).toBe(1)
  expect(setting('busy_timeout')).toBe(10_000)
})

test('changes everybody has heard of are forgotten on opening, the newest are kept', async () => {
  await (await openStore(folder)).close()
  const database = new Sqlite(join(folder, 'orangery.db'))
  database.exec(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000)
     INSERT INTO changes (dispatch_id) SELECT 'd' || i FROM n`,
  )
  database.close()
  await using store = await openStore(folder)
  const { sqlite } = store.database
  expect(sqlite.prepare('SELECT count(*) AS n, max(seq) AS newest FROM changes').get()).toEqual({
    n: 10_000,
    newest: 25_000,
  })
})

test('damage met in the middle of work is told as damage', async () => {
  await using store = await openStore(folder)
  expect(() =>
    store.database.attempt(() => {
      throw new Sqlite.SqliteError('database disk image is malformed', 'SQLITE_CORRUPT')
    }),
  ).toThrow(expect.objectContaining({ code: 'store.corrupt' }))
  expect(() =>
    store.database.attempt(() => {
      throw new Sqlite.SqliteError('database or disk is full', 'SQLITE_FULL')
    }),
  ).toThrow(expect.objectContaining({ code: 'store.unwritable', exitCode: 73 }))
  expect(() =>
    store.database.attempt(() => {
      throw new Sqlite.SqliteError('database is locked', 'SQLITE_BUSY_SNAPSHOT')
    }),
  ).toThrow(expect.objectContaining({ code: 'store.busy', exitCode: 75 }))
})
