import { expect, test } from 'vitest'
import type { DispatchId, RepoId } from '../../shared/ids.ts'
import { invocationMetaSchema, type InvocationMeta } from '../base/invocation.ts'
import { openStore } from './index.ts'
import { scratchFolder } from './testing.ts'

const id = '20260128120500-b7c9' as DispatchId
const repoId = '0123456789abcdef' as RepoId
const aMeta = (over: Partial<InvocationMeta> = {}): InvocationMeta =>
  invocationMetaSchema.parse({
    schema_version: '1.0',
    invocation_id: id,
    integration_worktree_id: null,
    sandbox_path: '/data/sandboxes/x',
    sandbox_branch: null,
    base_commit: null,
    runner: 'command',
    mode: 'headless',
    status: 'starting',
    started_at: '2026-01-28T12:05:00Z',
    strategy: 'overlay',
    driver: 'kernel-overlay',
    common_dir: null,
    roots: [],
    created_at_ms: 1,
    ...over,
  })

test('the mirror takes over records as they are, writes only what differs, and keeps unknown fields', async () => {
  await using scratch = await scratchFolder()
  await using store = await openStore(scratch.path)
  const told: string[] = []
  store.onChange((ids) => told.push(...ids))
  expect(store.invocations.reflect([{ repoId, meta: aMeta() }])).toBe(1)
  expect(store.invocations.reflect([{ repoId, meta: aMeta() }])).toBe(0)
  const later = aMeta({ status: 'completed', of_a_later_release: true } as object)
  expect(store.invocations.reflect([{ repoId, meta: later }])).toBe(1)
  expect(store.invocations.list()).toEqual([{ id, repoId, meta: later }])
  await new Promise((resolve) => setImmediate(resolve))
  expect(told).toContain(id)
  expect(store.invocations.forget(id)).toBe(true)
  expect(store.invocations.forget(id)).toBe(false)
})

test('landings wait in the order they were asked for; asked again, the newer word counts and the problem goes', async () => {
  await using scratch = await scratchFolder()
  await using store = await openStore(scratch.path)
  const other = '20260128120500-0000' as DispatchId
  store.landings.add(id, { kind: 'apply' }, 'you', '2026-01-28T12:05:00Z')
  store.landings.add(other, { kind: 'land' }, 'you', '2026-01-28T12:06:00Z')
  store.landings.fail(id, 'a conflict')
  await using second = await openStore(scratch.path)
  expect(second.landings.list().map((each) => [each.id, each.problem])).toEqual([
    [id, 'a conflict'],
    [other, null],
  ])
  store.landings.add(id, { kind: 'apply', all: true }, 'she', '2026-01-28T12:07:00Z')
  expect(second.landings.list().map((each) => each.id)).toEqual([other, id])
  expect(second.landings.find(id)).toMatchObject({ request: { all: true }, by: 'she', problem: null })
  expect(store.landings.remove(id)).toBe(true)
  expect(second.landings.find(id)).toBeNull()
})
