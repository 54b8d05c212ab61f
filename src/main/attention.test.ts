import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Client } from '../shared/api.ts'
import type { DispatchId } from '../shared/ids.ts'
import { openStore, type Store } from '../engine/store/index.ts'
import { watchDispatches, type Notice } from './attention.ts'

let scope: AsyncDisposableStack
let store: Store
beforeEach(async () => {
  scope = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'orangery-attention-'))
  scope.defer(() => rm(folder, { recursive: true, force: true }))
  store = scope.use(await openStore(folder))
})
afterEach(() => scope.disposeAsync())

const supervisor = { startedAt: '2026-01-01T00:00:00.000Z', supervisorPid: 1, supervisorStartTicks: 1 }

let serial = 0
function running(createdAt: string, name: string | null = null) {
  const id = `20260101000000-${(serial++).toString(16).padStart(4, '0')}` as DispatchId
  const nothing = { repoId: null, parentId: null, role: null, phase: null, prompt: null, sandbox: null }
  const contract = { agent: 'command', sandboxSpec: null, level: 1, boundary: 'readwrite' } as const
  store.dispatches.create(
    {
      ...nothing,
      ...contract,
      id,
      name,
      createdAt,
      roots: ['/project'],
      command: ['true'],
      status: 'starting',
      error: null,
    },
    { synced: false },
  )
  store.dispatches.markRunning(id, supervisor)
  return id
}
const end = (id: DispatchId, status: 'completed' | 'failed') =>
  store.dispatches.finish(id, {
    status,
    exitCode: status === 'completed' ? 0 : 1,
    error: null,
    effective: null,
    endedAt: supervisor.startedAt,
    lastEventHash: null,
  })
function ended(createdAt: string) {
  const id = running(createdAt)
  end(id, 'completed')
  return id
}
function asks(id: string, request: string) {
  store.database.sqlite
    .prepare(
      `INSERT INTO boundary_requests
       (id, dispatch_id, to_level, hosts, source, by, why, status, count, created_at, last_at, expires_at)
       VALUES (?, ?, 'network', '["x.test"]', 'agent', 'claude', 'needed', 'open', 1, ?, ?, ?)`,
    )
    .run(request, id, '2026-01-01', '2026-01-01', new Date(Date.now() + 600_000).toISOString())
}

/** Over the real records; `spoil` is asked before each call and may throw. */
function watched(spoil: (name: string) => void = () => {}) {
  const told: Notice[] = []
  const counts: { waiting: number; running: number }[] = []
  const failures: unknown[] = []
  const settled: string[] = []
  const pending: (() => void)[] = []
  const leaving = new AbortController()
  const answers: Readonly<Record<string, (input: never) => unknown>> = {
    'dispatch.list': (options: Parameters<Store['dispatches']['list']>[0]) => store.dispatches.list(options),
    'dispatch.get': ({ id }: { id: Parameters<Store['dispatches']['get']>[0] }) => store.dispatches.get(id),
    'boundary.inbox': () => store.boundaries.openRequests(),
  }
  const client = {
    call: async (name: string, input: never) => {
      spoil(name)
      return answers[name]?.(input)
    },
    open: async function* () {
      while (!leaving.signal.aborted) {
        await new Promise<void>((resolve) => pending.push(resolve))
        yield { ids: [] }
      }
    },
  } as unknown as Client
  const watching = watchDispatches(client, leaving.signal, {
    tell: (notice) => told.push(notice),
    settled: (requests) => settled.push(...requests),
    count: (each) => counts.push(each),
    failed: (error) => failures.push(error),
  })
  scope.defer(() => leaving.abort())
  const changed = async () => {
    await vi.waitFor(() => expect(pending).toHaveLength(1))
    pending.pop()?.()
    await vi.waitFor(() => expect(pending).toHaveLength(1))
  }
  const ready = () => vi.waitFor(() => expect(pending).toHaveLength(1))
  return { told, settled, counts, failures, changed, ready, watching }
}

test('what runs, asks or waits for a review is counted behind any number of newer dispatches, and how it ended is told', async () => {
  const reviewed = ended('2026-01-01T00:00:00.000Z')
  store.database.sqlite
    .prepare(`INSERT INTO changesets (id, state, files) VALUES (?, 'review', 1)`)
    .run(reviewed)
  const old = running('2026-01-01T00:00:01.000Z', 'the old one')
  asks(old, 'r1')
  store.database.sqlite.transaction(() => {
    for (let at = 0; at < 230; at++) ended(`2026-01-02T00:00:00.${String(at).padStart(3, '0')}Z`)
  })()
  const { told, counts, changed, ready } = watched()
  await ready()
  expect(counts.at(-1)).toEqual({ waiting: 2, running: 1 })
  expect(told).toEqual([])
  end(old, 'failed')
  await changed()
  expect(counts.at(-1)).toEqual({ waiting: 1, running: 0 })
  expect(told).toEqual([{ id: old, title: 'It ended early', body: 'the old one: failed' }])
  await changed()
  expect(told).toHaveLength(1)
})

test('a look that fails is made again, the watch goes on, and nothing that came meanwhile is lost', async () => {
  const id = running('2026-01-01T00:00:00.000Z')
  let spoilt = ''
  const { told, counts, failures, changed, ready } = watched((name) => {
    if (name === spoilt) throw new Error('database is locked')
  })
  await ready()
  for (const [at, name] of ['dispatch.list', 'boundary.inbox'].entries()) {
    spoilt = name
    asks(id, `r${at}`)
    await changed()
    expect(failures).toHaveLength(at + 1)
    expect(told).toHaveLength(at)
    spoilt = ''
    await changed()
    expect(told).toHaveLength(at + 1)
    expect(counts.at(-1)).toEqual({ waiting: at + 1, running: 1 })
  }
})

test('a look that fails is made again though nothing changes any more', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  scope.defer(() => void vi.useRealTimers())
  running('2026-01-01T00:00:00.000Z')
  let isSpoilt = true
  const { counts, failures } = watched(() => {
    if (isSpoilt) throw new Error('database is locked')
  })
  while (failures.length === 0) await sleep(1)
  expect(counts).toEqual([])
  isSpoilt = false
  await vi.advanceTimersByTimeAsync(10_000)
  expect(counts).toEqual([{ waiting: 0, running: 1 }])
})

test('a notice is withdrawn and told anew when a yes would open something else than it says (escape: stale-yes)', async () => {
  const id = running('2026-01-01T00:00:00.000Z', 'the agent')
  const { told, settled, changed, ready } = watched()
  await ready()
  asks(id, 'r1')
  await changed()
  expect(told).toMatchObject([
    { request: 'r1', shown: 'readwrite', body: expect.not.stringContaining('Write') },
  ])
  store.dispatches.setBoundary(id, 'readonly')
  await changed()
  expect(settled).toEqual(['r1'])
  expect(told).toMatchObject([
    {},
    { request: 'r1', shown: 'readonly', body: expect.stringContaining('Write in its') },
  ])
  await changed()
  expect([settled, told]).toMatchObject([['r1'], { length: 2 }])
  // At its level and beyond a yes opens the host, as it said before.
  for (const level of ['network', 'full'] as const) {
    store.dispatches.setBoundary(id, level)
    await changed()
    expect(told).toHaveLength(3)
  }
})
