import { afterAll, beforeAll, expect, test } from 'vitest'
import { defaultConfig } from './config/merge.ts'
import { networkNow } from './reach.ts'
import { contractOf, Theatre } from './testing.ts'

let theatre: Theatre
beforeAll(async () => {
  theatre = await Theatre.open()
})
afterAll(() => theatre[Symbol.asyncDispose]())

test('what a wider yes covers is open again with it where the change fails, and answered where it takes', async () => {
  const { boundaries, id, failNext } = await theatre.stage('readonly')
  const asked = { source: 'agent', by: 'claude', why: 'needed' } as const
  const files = await boundaries.request(id, { ...asked, to: 'readwrite', hosts: [] })
  const host = await boundaries.request(id, { ...asked, to: 'network', hosts: ['registry.test:443'] })
  const answering = { requests: [host.id], by: 'person', message: '', scope: 'once' as const }
  const statuses = () => boundaries.show(id).requests.map(({ status }) => status)
  failNext('before')
  await expect(boundaries.approve(id, answering)).rejects.toThrow()
  expect(statuses()).toEqual(['open', 'open'])
  const waiting = boundaries.waitFor(id, files.id, AbortSignal.timeout(10_000))
  await boundaries.approve(id, answering)
  expect(await waiting).toMatchObject({ status: 'approved', answer: { message: 'It has this already.' } })
  expect(boundaries.inbox().filter(({ dispatch }) => dispatch === id)).toEqual([])
})

test('at full with every public host open a host is had already, unless it is denied or was taken back, and what was asked before is answered by the yes', async () => {
  const { boundaries, id, project, user, contracts } = await theatre.stage('readwrite')
  const outputs = { mode: 'restricted' as const, allow: ['own.test:1'], deny: ['evil.test'] }
  contracts.set(id, contractOf(project, { boundary: 'readwrite', outputs }))
  const asked = { source: 'agent', by: 'claude', why: 'needed', to: 'network' } as const
  const yes = { by: 'person', message: '', scope: 'once' } as const
  const early = await boundaries.request(id, { ...asked, hosts: ['h1.test'] })
  const full = await boundaries.request(id, { ...asked, to: 'full', hosts: [] })
  expect(early).toMatchObject({ status: 'open' })
  await boundaries.approve(id, { ...yes, requests: [full.id] })
  expect(boundaries.inbox().filter(({ dispatch }) => dispatch === id)).toEqual([])
  expect(boundaries.show(id).requests.find((each) => each.id === early.id)).toMatchObject({
    status: 'approved',
    answer: { message: 'It has this already.' },
  })
  const statusOf = async (host: string, source: 'agent' | 'user' = 'agent') =>
    (await boundaries.request(id, { ...asked, source, hosts: [host] })).status
  expect(await statusOf('h2.test')).toBe('approved')
  expect(await statusOf('h2.test:443', 'user')).toBe('approved')
  expect(await statusOf('*.h2.test')).toBe('approved')
  expect(boundaries.show(id).hosts).toEqual([])
  expect(await statusOf('evil.test')).toBe('denied')
  // A program that knows no proxy finds it at that port only once it is named.
  expect(await statusOf('database.test:15432')).toBe('open')
  await boundaries.narrow(id, { hosts: ['h2.test'], by: 'person', why: '', way: 'narrowed' })
  expect(await statusOf('h2.test')).toBe('open')
  expect(await statusOf('*.test')).toBe('open')
  await user({ sandboxLevels: { full: { deniedHosts: ['h3.test'] } } })
  expect(await statusOf('h3.test')).toBe('denied')
  await boundaries.narrow(id, { to: 'network', by: 'person', why: '', way: 'narrowed' })
  expect(await statusOf('h4.test')).toBe('open')
})

test('a yes to a host at full, where the contract names its outputs, is asked for as before', async () => {
  const { boundaries, id, project, contracts } = await theatre.stage('full')
  const outputs = { mode: 'restricted' as const, allow: ['own.test:1'] }
  contracts.set(id, contractOf(project, { boundary: 'full', outputs }))
  const asked = { source: 'agent', by: 'claude', why: 'needed', to: 'network' } as const
  expect(await boundaries.request(id, { ...asked, hosts: ['h1.test'] })).toMatchObject({ status: 'open' })
})

test('a question for a name is answered by a yes to one of its ports, and no yes to it opens the others', async () => {
  const { boundaries, id } = await theatre.stage('readwrite')
  const asked = { source: 'broker', by: 'broker', why: 'denied', to: 'network' } as const
  const name = await boundaries.request(id, { ...asked, hosts: ['registry.test'] })
  const wide = await boundaries.request(id, { ...asked, source: 'agent', hosts: ['*.registry.test'] })
  const host = await boundaries.request(id, { ...asked, source: 'agent', hosts: ['registry.test:8080'] })
  await boundaries.approve(id, { requests: [host.id], by: 'person', message: '', scope: 'once' })
  const { requests, hosts } = boundaries.show(id)
  expect(requests.find((each) => each.id === name.id)).toMatchObject({
    status: 'approved',
    answer: { message: 'It has registry.test:8080 already.' },
  })
  expect(requests.find((each) => each.id === wide.id)).toMatchObject({ status: 'open' })
  expect(hosts).toEqual(['registry.test:8080'])
  // Asked while the change was on its way to the broker.
  expect(await boundaries.request(id, { ...asked, hosts: ['registry.test'] })).toMatchObject({
    status: 'approved',
  })
  // Who asks for all of the host in so many words is not answered with less.
  expect(await boundaries.request(id, { ...asked, source: 'agent', hosts: ['registry.test'] })).toMatchObject(
    { status: 'open' },
  )
  await boundaries.narrow(id, { hosts: ['registry.test:8080'], by: 'person', why: '', way: 'narrowed' })
  expect(await boundaries.request(id, { ...asked, hosts: ['registry.test'] })).toMatchObject({
    status: 'open',
  })
})

test('an open question for a name is answered by a yes to one of its ports that is saved meanwhile', async () => {
  const { boundaries, id, user } = await theatre.stage('readwrite')
  const asked = { source: 'broker', by: 'broker', why: 'denied', to: 'network' } as const
  await boundaries.request(id, { ...asked, hosts: ['registry.test'] })
  await boundaries.request(id, { ...asked, hosts: ['other.test:1'] })
  const approved = (level: 'readwrite' | 'network', host: string) => ({ agent: '*', level, hosts: [host] })
  await user({
    sandboxApprovedEscalations: [
      approved('network', 'registry.test:8080'),
      approved('readwrite', 'other.test:1'),
    ],
  })
  await boundaries.reconsider(id)
  const { requests, hosts } = boundaries.show(id)
  expect(hosts).toEqual(['registry.test:8080', 'other.test:1'])
  // What was asked for is on record as it was asked.
  expect(requests).toMatchObject([
    { status: 'approved', hosts: ['registry.test'], to: 'network', answer: { way: 'saved' } },
    { status: 'approved', hosts: ['other.test:1'], to: 'network', answer: { way: 'saved' } },
  ])
})

test('who says yes to a run that has ended is told what to write for the next one', async () => {
  const { boundaries, id } = await theatre.stage('readwrite')
  const { id: request } = (await boundaries.denied(id, { kind: 'host', host: 'registry.test', port: 8080 }))!
  theatre.store.dispatches.finish(id, {
    status: 'failed',
    exitCode: 22,
    error: null,
    effective: null,
    endedAt: '2026-01-01T13:00:00.000Z',
    lastEventHash: null,
  })
  const yes = { by: 'person', message: '', scope: 'project' } as const
  const hint = expect.stringMatching(/^It has ended.* "sandboxApprovedEscalations": \[.*\]\. /) as string
  await expect(boundaries.approve(id, { ...yes, requests: [request] })).rejects.toMatchObject({ hint })
  const error = await boundaries.approve(id, { ...yes, requests: null }).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: 'boundary.nothing_open', hint })
  // What it says to write is what counts in the next run.
  const lines = /Escalations": (\[.*\])\./.exec((error as { hint: string }).hint)?.[1] ?? ''
  const next = await theatre.stage('readwrite')
  await next.user({ sandboxApprovedEscalations: JSON.parse(lines) as [] })
  expect(
    await next.boundaries.denied(next.id, { kind: 'host', host: 'registry.test', port: 8080 }),
  ).toMatchObject({ status: 'approved' })
})

test('an approval for a task is revoked by the start of its id, and listed while somebody of the task is at work', async () => {
  const { boundaries, id, project } = await theatre.stage('readwrite')
  const wish = { to: 'network', source: 'agent', by: 'claude', why: 'needed' } as const
  const yes = { requests: null, by: 'person', message: '', scope: 'task' } as const
  const listed = async () => {
    const { tasks } = await boundaries.approvals([project])
    return tasks.filter(({ task, revoked_at: revoked }) => task === id && revoked === null)
  }
  const approved = async (hosts: string[]) => {
    const { id: request } = await boundaries.request(id, { ...wish, hosts })
    await boundaries.approve(id, { ...yes, requests: [request] })
    return request
  }
  const request = await approved(['a.test'])
  expect(await listed()).toMatchObject([{ id: `${request}.0` }])
  expect(await boundaries.revoke(request, [project])).toEqual(['task'])
  expect(await listed()).toEqual([])
  await expect(boundaries.revoke(request, [project])).rejects.toMatchObject({ code: 'boundary.no_approval' })
  await approved(['b.test'])
  expect(await listed()).toHaveLength(1)
  theatre.store.dispatches.finish(id, {
    status: 'completed',
    exitCode: 0,
    error: null,
    effective: null,
    endedAt: '2026-01-01T13:00:00.000Z',
    lastEventHash: null,
  })
  expect(await listed()).toEqual([])
})

test('a yes for the task answers a later turn of its changeset and the children of that, and is listed as long as one may come', async () => {
  const { boundaries, id, project, contracts } = await theatre.stage('readwrite')
  const { sqlite } = theatre.store.database
  const wish = { to: 'network', hosts: ['a.test'], source: 'agent', by: 'claude', why: 'needed' } as const
  const listed = async () => {
    const { tasks } = await boundaries.approvals([project])
    return tasks.filter(({ task }) => task === id).length
  }
  await boundaries.request(id, wish)
  await boundaries.approve(id, { requests: null, by: 'person', message: '', scope: 'task' })
  sqlite.prepare('INSERT INTO changesets (id, state) VALUES (?, ?)').run(id, 'review')
  sqlite.prepare(`UPDATE dispatches SET status = 'completed' WHERE id = ?`).run(id)
  expect(await listed()).toBe(1)
  const [turn, child, stranger] = [theatre.newId(), theatre.newId(), theatre.newId()]
  for (const [each, parent] of [
    [turn, null],
    [child, turn],
    [stranger, null],
  ] as const) {
    theatre.addDispatch(each, project, 'readwrite', 'claude', parent)
    contracts.set(each, contractOf(project, { boundary: 'readwrite' }))
  }
  sqlite
    .prepare('INSERT INTO changeset_turns (dispatch_id, changeset_id, at, by) VALUES (?, ?, ?, ?)')
    .run(turn, id, '2026-01-01T00:00:00.000Z', 'person')
  expect(await boundaries.request(turn, wish)).toMatchObject({ status: 'approved' })
  expect(await boundaries.request(child, wish)).toMatchObject({ status: 'approved' })
  expect(await boundaries.request(stranger, wish)).toMatchObject({ status: 'open' })
  sqlite.prepare(`UPDATE changesets SET state = 'applied' WHERE id = ?`).run(id)
  expect(await listed()).toBe(1)
  sqlite.prepare(`UPDATE dispatches SET status = 'completed' WHERE id IN (?, ?)`).run(turn, child)
  expect(await listed()).toBe(0)
})

test('an earlier yes to full for the task opens the contract’s hosts when it answers again, and not every one', async () => {
  const { boundaries, id, project, user, contracts } = await theatre.stage('readwrite')
  const outputs = { mode: 'restricted' as const, allow: ['own.test:1'] }
  const contract = contractOf(project, { boundary: 'readwrite', outputs })
  contracts.set(id, contract)
  const wish = { to: 'full', hosts: [], source: 'agent', by: 'claude', why: 'needed' } as const
  const mode = () => networkNow(contract, theatre.store.boundaries.read(id), defaultConfig()).mode
  await boundaries.request(id, wish)
  await boundaries.approve(id, { requests: null, by: 'person', message: '', scope: 'task' })
  expect(mode()).toBe('open')
  await user({ sandboxMaximumBoundary: 'readwrite' })
  await boundaries.reconsider(id)
  await user({ sandboxMaximumBoundary: 'full' })
  expect(await boundaries.request(id, wish)).toMatchObject({ status: 'approved' })
  expect(boundaries.show(id).level).toBe('full')
  expect(mode()).toBe('restricted')
})
