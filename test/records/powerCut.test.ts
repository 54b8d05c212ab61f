import Sqlite from 'better-sqlite3'
import { randomBytes } from 'node:crypto'
import { cp, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { run } from '../../src/engine/base/process.ts'
import { openStore } from '../../src/engine/store/index.ts'
import { scratchFolder } from '../../src/engine/store/testing.ts'
import { makeFoldersInMemory } from '../inMemory.ts'

await makeFoldersInMemory()

const fixtures = join(import.meta.dirname, '../../src/engine/store/fixtures')

let scope: AsyncDisposableStack
let dataDir: string
beforeEach(async () => {
  scope = new AsyncDisposableStack()
  dataDir = scope.use(await scratchFolder()).path
})
afterEach(() => scope.disposeAsync())

async function lay(fixture: string): Promise<void> {
  const database = new Sqlite(join(dataDir, 'orangery.db'))
  database.exec(await readFile(join(fixtures, fixture), 'utf8'))
  database.pragma('journal_mode = WAL')
  database.close()
}

function rowsOf(path: string): unknown[] {
  const database = new Sqlite(path, { readonly: true })
  try {
    expect(database.pragma('integrity_check', { simple: true })).toBe('ok')
    return database.prepare('SELECT id, agent, prompt, status, created_at FROM dispatches ORDER BY id').all()
  } finally {
    database.close()
  }
}

const child = join(import.meta.dirname, 'openAndDie.ts')

async function comesThrough(folder: string, before: unknown[], when: string): Promise<void> {
  expect(rowsOf(join(folder, 'orangery.db')), when).toEqual(before)
  for (const name of (await readdir(folder)).filter((each) => each.endsWith('.bak'))) {
    expect(rowsOf(join(folder, name)), `${when}, ${name}`).toEqual(before)
  }
  await using store = await openStore(folder)
  expect(store.dispatches.list({ limit: 9 }), when).toHaveLength(before.length)
  expect((await readdir(folder)).filter((each) => each.includes('.tmp'))).toEqual([])
}

test.each(['v2.sql', 'v17.sql'])(
  'kill -9 before any step of a migration from %s loses nothing, and the next start completes it',
  async (fixture) => {
    await lay(fixture)
    const before = rowsOf(join(dataDir, 'orangery.db'))
    await using copies = await scratchFolder()
    await using place = await scratchFolder()
    await cp(dataDir, place.path, { recursive: true })
    const result = await run(process.execPath, [child, place.path, '0', copies.path])
    expect(result.stderr.toString()).toBe('')
    const steps = Number(result.stdout.toString())
    // Fewer would mean that it does not look where the work is.
    expect(steps).toBeGreaterThan(60)
    // What comes after v17 is tried in full from there.
    for (let step = 1; step <= steps; step += fixture === 'v2.sql' && step > 40 ? 4 : 1)
      await comesThrough(join(copies.path, String(step)), before, `before step ${step}`)

    // The control: a process that is really killed leaves what its copy shows.
    const killed = join(copies.path, 'killed')
    await cp(dataDir, killed, { recursive: true })
    const fatal = Math.floor(steps / 2)
    expect((await run(process.execPath, [child, killed, String(fatal)])).signal).toBe('SIGKILL')
    await comesThrough(killed, before, `killed before step ${fatal}`)
  },
)

test('a log cut off at any byte leaves every row, in the version before or after a step', async () => {
  await lay('v17.sql')
  const path = join(dataDir, 'orangery.db')
  // A reader in the way keeps SQLite from emptying the log, so that it holds the whole migration.
  const blocker = new Sqlite(path)
  blocker.prepare('BEGIN').run()
  blocker.prepare('SELECT * FROM dispatches').get()
  const store = await openStore(dataDir)
  const [main, log] = [await readFile(path), await readFile(`${path}-wal`)]
  blocker.close()
  await store.close()
  expect(log.length).toBeGreaterThan(20_000)

  const versions = new Set<number>()
  const cuts = 60
  for (let cut = 0; cut <= cuts; cut++) {
    await using place = await scratchFolder()
    const survivor = join(place.path, 'orangery.db')
    const length = cut === cuts ? log.length : Math.floor((log.length * cut) / cuts)
    await writeFile(survivor, main)
    // What a disk may leave behind the last finished write: nothing, or anything.
    const rubbish = cut % 2 === 0 ? Buffer.alloc(0) : randomBytes(777)
    await writeFile(`${survivor}-wal`, Buffer.concat([log.subarray(0, length), rubbish]))
    const looked = new Sqlite(survivor)
    versions.add(looked.pragma('user_version', { simple: true }) as number)
    looked.close()
    expect(rowsOf(survivor)).toHaveLength(3)
    await using recovered = await openStore(place.path)
    expect(recovered.dispatches.list({ limit: 9 })).toHaveLength(3)
    expect(recovered.database.sqlite.pragma('integrity_check', { simple: true })).toBe('ok')
  }
  // The cuts fell into the steps, not only before the first and after the last.
  expect(versions.size).toBeGreaterThan(2)
})
