import Sqlite from 'better-sqlite3'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openStore, type Store } from './index.ts'
import { aDispatch, anOutcome, scratchFolder } from './testing.ts'

let scope: AsyncDisposableStack
let dataDir: string
let store: Store
beforeEach(async () => {
  scope = new AsyncDisposableStack()
  dataDir = scope.use(await scratchFolder()).path
  store = scope.use(await openStore(dataDir))
})
afterEach(() => scope.disposeAsync())

async function until(condition: () => boolean): Promise<void> {
  for (let waited = 0; !condition(); waited += 5) {
    if (waited > 5_000) throw new Error('it did not come to pass')
    await sleep(5)
  }
}

test('our own writes are told at once, those of one turn together', async () => {
  const told: (readonly string[])[] = []
  store.onChange((ids) => told.push(ids))
  const [one, two] = [aDispatch(), aDispatch()]
  store.dispatches.create(one)
  store.dispatches.create(two)
  expect(told).toEqual([])
  await Promise.resolve()
  expect(told).toEqual([[one.id, two.id]])
})

test('what another connection writes is told with the ids it touched, every kind of write', async () => {
  const told = new Set<string>()
  store.onChange((ids) => ids.forEach((id) => told.add(id)))
  const other = scope.use(await openStore(dataDir))
  const dispatch = aDispatch()
  const written = async (write: () => void) => {
    told.clear()
    write()
    await until(() => told.has(dispatch.id))
  }
  await written(() => other.dispatches.create(dispatch))
  await written(() =>
    other.dispatches.markRunning(dispatch.id, { startedAt: '', supervisorPid: 1, supervisorStartTicks: 1 }),
  )
  await written(() => other.dispatches.setBoundary(dispatch.id, 'network'))
  await written(() => other.dispatches.finish(dispatch.id, anOutcome()))
  expect(store.dispatches.get(dispatch.id).status).toBe('completed')
})

test('a change made by no program of ours is told too', async () => {
  const told: string[] = []
  store.onChange((ids) => told.push(...ids))
  const stranger = new Sqlite(join(dataDir, 'orangery.db'))
  scope.defer(() => void stranger.close())
  stranger.exec(`INSERT INTO dispatches (id, status, created_at) VALUES ('theirs', 'starting', '')`)
  stranger.exec(`INSERT INTO changesets (id, state) VALUES ('theirs', 'review')`)
  await until(() => told.includes('theirs'))
})

test('a write that failed or changed nothing is not told', async () => {
  const dispatch = aDispatch()
  store.dispatches.create(dispatch)
  store.dispatches.finish(dispatch.id, anOutcome())
  const told: string[] = []
  store.onChange((ids) => told.push(...ids))
  store.dispatches.finish(dispatch.id, anOutcome())
  expect(() => store.dispatches.create(dispatch)).toThrow()
  await sleep(20)
  expect(told).toEqual([])
})

test('whoever stops listening is told no more, and the others still are', async () => {
  const [first, second]: string[][] = [[], []]
  const stop = store.onChange((ids) => first!.push(...ids))
  store.onChange((ids) => second!.push(...ids))
  stop()
  stop()
  store.dispatches.create(aDispatch())
  await Promise.resolve()
  expect(first).toEqual([])
  expect(second).toHaveLength(1)
})

test('closing twice does no harm, and nothing is told after it', async () => {
  const told: string[] = []
  store.onChange((ids) => told.push(...ids))
  store.dispatches.create(aDispatch())
  await store.close()
  await store.close()
  await sleep(50)
  expect(told).toEqual([])
})
