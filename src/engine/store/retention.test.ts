import { chmod, link, mkdir, readdir, stat, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { ChangesetState } from '../../shared/changeset.ts'
import type { DispatchId, RepoId } from '../../shared/ids.ts'
import { layout, type Layout } from '../base/paths.ts'
import { diskUse, diskUseOfAll, openStore, type Store } from './index.ts'
import { aDispatch, anOutcome, scratchFolder } from './testing.ts'

const repoId = '0123456789abcdef' as RepoId
const kilobyte = 1024

let scope: AsyncDisposableStack
let dataDir: string
let store: Store
let places: Layout
beforeEach(async () => {
  scope = new AsyncDisposableStack()
  dataDir = scope.use(await scratchFolder()).path
  store = scope.use(await openStore(dataDir))
  places = layout(dataDir)
})
afterEach(() => scope.disposeAsync())

async function put(path: string, size: number): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, Buffer.alloc(size, 'x'))
}

let minute = 0
/** A dispatch with 10 KiB of output and 4 KiB of events, younger than those before it. */
async function logged(end: 'running' | 'ended', state?: ChangesetState): Promise<DispatchId> {
  const createdAt = new Date(Date.UTC(2026, 0, 1, 0, minute++)).toISOString()
  const id = `${createdAt.replaceAll(/\D/g, '').slice(0, 14)}-00aa` as DispatchId
  store.dispatches.create(aDispatch({ id, repoId, createdAt }))
  if (end === 'ended') store.dispatches.finish(id, anOutcome())
  if (state) store.database.sqlite.prepare('INSERT INTO changesets (id, state) VALUES (?, ?)').run(id, state)
  await put(places.output(repoId, id), 10 * kilobyte)
  await put(places.events(repoId, id), 4 * kilobyte)
  return id
}

const left = async (id: DispatchId) => (await readdir(places.invocation(repoId, id))).sort()

test('without a size set by the user nothing is ever removed', async () => {
  const id = await logged('ended')
  expect(store.retention.logsKept).toBeNull()
  expect(await store.retention.trim()).toEqual([])
  expect(await left(id)).toEqual(['events.ndjson', 'output.log'])
})

test('the logs of a later turn stay as long as its changeset is in review', async () => {
  const first = await logged('ended', 'review')
  const second = await logged('ended')
  store.database.sqlite
    .prepare('INSERT INTO changeset_turns (dispatch_id, changeset_id, at, by) VALUES (?, ?, ?, ?)')
    .run(second, first, '2026-01-01T00:00:00.000Z', 'you')
  const other = await logged('ended')
  store.retention.keepLogs(0)
  expect(new Set((await store.retention.trim()).map(({ id }) => id))).toEqual(new Set([other]))
  expect(await left(second)).toEqual(['events.ndjson', 'output.log'])
})

test('past the size the oldest output goes first, events only after all output, and each removal is written down', async () => {
  const [oldest, middle, newest] = [
    await logged('ended'),
    await logged('ended', 'applied'),
    await logged('ended'),
  ]
  store.retention.keepLogs(35 * kilobyte)
  expect((await store.retention.trim()).map(({ id, log }) => [id, log])).toEqual([[oldest, 'output']])
  expect(await store.retention.trim()).toEqual([])
  store.retention.keepLogs(10 * kilobyte)
  expect((await store.retention.trim()).map(({ id, log }) => [id, log])).toEqual([
    [middle, 'output'],
    [newest, 'output'],
    [oldest, 'events'],
  ])
  expect(await left(middle)).toEqual(['events.ndjson'])
  expect(store.retention.removed(oldest)).toMatchObject([
    { id: oldest, log: 'events', bytes: 4 * kilobyte },
    { id: oldest, log: 'output', bytes: 10 * kilobyte },
  ])
  expect(store.dispatches.list({ limit: 9 })).toHaveLength(3)
})

test('a dispatch that runs or waits for a decision keeps its logs, however little room there is', async () => {
  const kept = [
    await logged('running'),
    await logged('ended', 'active'),
    await logged('ended', 'review'),
    await logged('ended', 'rejected'),
  ]
  const decided = await logged('ended', 'abandoned')
  store.retention.keepLogs(0)
  await store.retention.trim()
  for (const id of kept) expect(await left(id), id).toEqual(['events.ndjson', 'output.log'])
  expect(await left(decided)).toEqual([])
})

test('torn ends go with their log, and everything else stays', async () => {
  const id = await logged('ended')
  await put(`${places.events(repoId, id)}.torn-1`, kilobyte)
  await put(places.invocationMeta(repoId, id), kilobyte)
  await put(join(places.sandbox(repoId, id), 'upper', 'work'), kilobyte)
  store.retention.keepLogs(0)
  expect(await store.retention.trim()).toMatchObject([
    { log: 'output' },
    { log: 'events', bytes: 5 * kilobyte },
  ])
  expect(await left(id)).toEqual(['meta.json'])
  expect((await stat(join(places.sandbox(repoId, id), 'upper', 'work'))).size).toBe(kilobyte)
})

test('the size can be changed, taken back, and must be a size', () => {
  store.retention.keepLogs(5)
  store.retention.keepLogs(6)
  expect(store.retention.logsKept).toBe(6)
  store.retention.keepLogs(null)
  expect(store.retention.logsKept).toBeNull()
  for (const size of [-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
    expect(() => store.retention.keepLogs(size)).toThrow(expect.objectContaining({ exitCode: 65 }))
  }
})

test('a dispatch costs what it holds: workspace, logs and the rest, each file once and no link followed', async () => {
  const id = await logged('ended')
  const upper = join(places.sandbox(repoId, id), 'upper')
  await put(join(upper, 'big'), 100 * kilobyte)
  await link(join(upper, 'big'), join(upper, 'same file'))
  await symlink('/', join(upper, 'everything'))
  await put(join(places.changeset(repoId, id), 'journal'), 8 * kilobyte)
  await put(join(places.archive, id, 'tree.tar'), 8 * kilobyte)
  await put(join(places.objects(repoId), 'pack'), 50 * kilobyte)
  const use = await diskUse(dataDir, id)
  const folder = (await stat(upper)).blocks * 512
  expect(use.workspace).toBeGreaterThanOrEqual(100 * kilobyte)
  expect(use.workspace).toBeLessThanOrEqual(104 * kilobyte + 2 * folder)
  expect(use.output).toBeGreaterThanOrEqual(10 * kilobyte)
  expect(use.events).toBe(4 * kilobyte)
  expect(use.other).toBeGreaterThanOrEqual(16 * kilobyte)
  expect(use.total).toBe(use.workspace + use.output + use.events + use.other)
  expect(use.captures).toBe(0)

  const all = await diskUseOfAll(dataDir)
  expect(all.dispatches).toEqual([use])
  expect(all.shared.objects).toBeGreaterThanOrEqual(50 * kilobyte)
  expect(all.shared.records).toBeGreaterThan(0)

  await put(join(places.objects(repoId), 'objects', 'pack', 'pack-1.pack'), 50 * kilobyte)
  const owned = await diskUseOfAll(dataDir, new Map([['pack-1', id]]))
  expect(owned.dispatches[0]?.captures).toBe(52 * kilobyte)
  expect(owned.shared.objects).toBeLessThan(all.shared.objects + 20 * kilobyte)
})

test('what is not there costs nothing, and no reference leads out of the data folder', async () => {
  expect((await diskUse(dataDir, '20260101000000-ffff')).total).toBe(0)
  expect((await diskUse(dataDir, '../../..')).total).toBe(0)
})

test('names that are not text are counted, and folders the agent closed are counted as such', async () => {
  const id = await logged('ended')
  const upper = join(places.sandbox(repoId, id), 'upper')
  await mkdir(upper, { recursive: true })
  const odd = Buffer.concat([Buffer.from(`${upper}/`), Buffer.from([0xff, 0xfe])])
  await writeFile(odd, Buffer.alloc(64 * kilobyte, 'x'))
  await mkdir(join(upper, 'closed'))
  await chmod(join(upper, 'closed'), 0)
  const use = await diskUse(dataDir, id)
  expect(use.workspace).toBeGreaterThanOrEqual(64 * kilobyte)
  expect(use.unreadable).toBe(process.getuid?.() === 0 ? 0 : 1)
  await chmod(join(upper, 'closed'), 0o700)
})
