import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openStore } from './index.ts'
import { aDispatch, anOutcome } from './testing.ts'

let dataDir: string
beforeEach(async () => {
  dataDir = join(await mkdtemp(join(tmpdir(), 'orangery-store-')), 'data')
})
afterEach(async () => {
  await rm(join(dataDir, '..'), { recursive: true, force: true })
})

test('a fresh data folder and its database are closed to everyone else', async () => {
  await using store = await openStore(dataDir)
  store.dispatches.create(aDispatch())
  expect((await stat(dataDir)).mode & 0o777).toBe(0o700)
  for (const name of ['orangery.db', 'orangery.db-wal', 'orangery.db-shm']) {
    expect((await stat(join(dataDir, name))).mode & 0o777).toBe(0o600)
  }
})

test('a dispatch goes from starting over running to its end and is listed with what happened', async () => {
  await using store = await openStore(dataDir)
  const dispatch = aDispatch()
  store.dispatches.create(dispatch)
  store.dispatches.markRunning(dispatch.id, {
    startedAt: '2026-01-28T12:05:01.000Z',
    supervisorPid: 4711,
    supervisorStartTicks: 99,
  })
  expect(store.dispatches.unfinished().map((each) => each.supervisorPid)).toEqual([4711])
  expect(store.dispatches.finish(dispatch.id, anOutcome())).toBe(true)
  expect(store.dispatches.finish(dispatch.id, anOutcome({ status: 'failed' }))).toBe(false)
  expect(store.dispatches.unfinished()).toEqual([])
  expect(store.dispatches.list({ limit: 10 })).toMatchObject([{ id: dispatch.id, status: 'completed' }])
})
