import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { BoundaryGrant, BoundaryRequest } from '../../shared/escalation.ts'
import type { DispatchId } from '../../shared/ids.ts'
import { openStore, type Store } from './store.ts'
import { aDispatch, anOutcome } from './testing.ts'

let dataDir: string
let store: Store
let id: DispatchId

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'orangery-approvals-'))
  store = await openStore(dataDir)
  const dispatch = aDispatch({ boundary: 'readonly', phase: 'plan' })
  store.dispatches.create(dispatch)
  id = dispatch.id
})
afterEach(async () => {
  await store.close()
  await rm(dataDir, { recursive: true, force: true })
})

const request = (more: Partial<BoundaryRequest> = {}): BoundaryRequest => ({
  id: 'r1',
  dispatch: id,
  to: 'network',
  hosts: ['a.test:443'],
  source: 'broker',
  by: 'broker',
  why: 'denied',
  status: 'open',
  count: 1,
  created_at: '2026-01-01T00:00:00.000Z',
  last_at: '2026-01-01T00:00:00.000Z',
  expires_at: '2026-01-01T00:15:00.000Z',
  answer: null,
  ...more,
})
const grant: BoundaryGrant = {
  at: '2026-01-01T00:01:00.000Z',
  from: 'readonly',
  to: 'network',
  hosts: ['a.test:443'],
  taken: ['b.test'],
  returned: ['b.test:443'],
  by: 'person',
  why: 'denied',
  way: 'once',
  request: 'r1',
}

test('what is written is read back, by another process too', async () => {
  const answer = { at: grant.at, by: 'person', way: 'once', message: 'go' } as const
  store.boundaries.change(id, (state) => ({ state: { ...state, requests: [request()] }, result: null }))
  store.boundaries.change(id, (state) => ({
    state: { ...state, requests: [request({ status: 'approved', answer, count: 3 })], grants: [grant] },
    result: null,
  }))
  await using other = await openStore(dataDir)
  expect(other.boundaries.read(id)).toMatchObject({
    start: 'readonly',
    phase: 'plan',
    running: true,
    task: id,
    grants: [grant],
    requests: [request({ status: 'approved', answer, count: 3 })],
  })
})

test('a change that throws writes nothing', () => {
  const act = () =>
    store.boundaries.change(id, () => {
      throw new Error('no')
    })
  expect(act).toThrow('no')
  expect(store.boundaries.read(id).requests).toEqual([])
})

test('the database refuses to rewrite or remove a grant, or what was asked for', () => {
  store.boundaries.change(id, (state) => ({
    state: { ...state, requests: [request()], grants: [grant] },
    result: null,
  }))
  const { sqlite } = store.database
  const attacks = [
    `UPDATE boundary_grants SET to_level = 'full'`,
    'DELETE FROM boundary_grants',
    `INSERT OR REPLACE INTO boundary_grants SELECT seq, dispatch_id, at, from_level, 'full', hosts, by, why, way, request, taken, returned FROM boundary_grants`,
    `UPDATE boundary_requests SET to_level = 'full'`,
    `UPDATE boundary_requests SET hosts = '["*"]'`,
    'DELETE FROM boundary_requests',
  ]
  for (const attack of attacks) expect(() => sqlite.exec(attack), attack).toThrow(/written once|never/)
  expect(store.boundaries.read(id).grants).toEqual([grant])
})

test('the task of a child is the oldest ancestor, and its approvals are the child’s', () => {
  const child = aDispatch({ parentId: id })
  const grandchild = aDispatch({ parentId: child.id })
  store.dispatches.create(child)
  store.dispatches.create(grandchild)
  const approval = {
    id: 'r1.0',
    task: id,
    agent: 'command',
    level: 'network',
    hosts: [],
    by: 'person',
    at: grant.at,
    revoked_at: null,
  } as const
  store.boundaries.change(id, (state) => ({
    state: { ...state, taskApprovals: [{ ...approval, hosts: [] }] },
    result: null,
  }))
  expect(store.boundaries.read(grandchild.id)).toMatchObject({ task: id, taskApprovals: [approval] })
  expect(store.boundaries.revokeTaskApproval('r1.0', grant.at)).toBe(true)
  expect(store.boundaries.revokeTaskApproval('r1.0', grant.at)).toBe(false)
})

test('open requests of a dispatch that has ended wait for nobody', () => {
  store.boundaries.change(id, (state) => ({ state: { ...state, requests: [request()] }, result: null }))
  expect(store.boundaries.openRequests()).toHaveLength(1)
  store.dispatches.finish(id, anOutcome({ status: 'cancelled' }))
  expect(store.boundaries.openRequests()).toEqual([])
  expect(store.boundaries.read(id).running).toBe(false)
})

test('other processes hear of a request', async () => {
  await using other = await openStore(dataDir)
  const heard = new Promise<readonly string[]>((resolve) => {
    const stop = other.onChange((ids) => {
      stop()
      resolve(ids)
    })
  })
  store.boundaries.change(id, (state) => ({ state: { ...state, requests: [request()] }, result: null }))
  expect(await heard).toContain(id)
})
