import { afterAll, beforeAll, expect, test } from 'vitest'
import { boundaryLevels, type BoundaryLevel } from '../../shared/boundary.ts'
import { contractOf, Theatre } from './testing.ts'

let theatre: Theatre
beforeAll(async () => {
  theatre = await Theatre.open()
})
afterAll(() => theatre[Symbol.asyncDispose]())

test('a yes to a level and one to a host of it, saved together, answer both the next time', async () => {
  const asked = { source: 'agent', by: 'agent', why: 'npm install' } as const
  for (const [to, scope] of [
    ['network', 'project'],
    ['full', 'task'],
    ['readwrite', 'user'],
  ] as const) {
    const { boundaries, id, project, live } = await theatre.stage('readonly')
    const wishes = [
      { ...asked, to, hosts: [] },
      { ...asked, to, hosts: ['a.test'] },
    ]
    for (const wish of wishes) await boundaries.request(id, wish)
    await boundaries.approve(id, { requests: null, by: 'person', message: '', scope })
    expect(live).toMatchObject({ level: to, hosts: ['a.test'] })

    const next = theatre.newId()
    theatre.addDispatch(next, project, 'readonly', 'claude', scope === 'task' ? id : null)
    for (const wish of wishes)
      expect(await boundaries.request(next, wish), `${scope}: ${to}`).toMatchObject({ status: 'approved' })
  }
})

test('whatever a saved yes has given, the same request of the next dispatch gets without asking, and no less', async () => {
  const levels = boundaryLevels.flatMap((from) => boundaryLevels.map((to) => [from, to] as const))
  for (const [from, to] of levels) {
    for (const scope of ['project', 'user', 'task'] as const) {
      const { boundaries, id, project, contracts } = await theatre.stage(from)
      // At `full` a contract that names no outputs has every host already.
      const outputs = { mode: 'restricted' as const, allow: ['own.test:1'] }
      contracts.set(id, contractOf(project, { boundary: from, outputs }))
      const wish = { to, hosts: ['a.test:443'], source: 'agent', by: 'agent', why: 'npm install' } as const
      expect((await boundaries.request(id, wish)).status).toBe('open')
      await boundaries.approve(id, { requests: null, by: 'person', message: '', scope })
      const gave = boundaries.show(id)

      const next = theatre.newId()
      theatre.addDispatch(next, project, from, 'claude', scope === 'task' ? id : null)
      contracts.set(next, contracts.get(id)!)
      const answer = await boundaries.request(next, wish)
      expect(answer, `${from} → ${to}, ${scope}`).toMatchObject({ status: 'approved' })
      expect(boundaries.show(next)).toMatchObject({ level: gave.level, hosts: gave.hosts })
    }
  }
})

test('a yes to a host that was given where files could be written makes none writable elsewhere', async () => {
  const asked = { source: 'agent', by: 'agent', why: 'npm install' } as const
  for (const scope of ['user', 'task'] as const) {
    const { boundaries, id, project } = await theatre.stage('readwrite')
    await boundaries.request(id, { ...asked, to: 'network', hosts: ['a.test:443'] })
    await boundaries.approve(id, { requests: null, by: 'person', message: '', scope })
    const next = theatre.newId()
    theatre.addDispatch(next, project, 'readonly', 'claude', scope === 'task' ? id : null)
    for (const to of ['readwrite', 'network'] as const) {
      expect((await boundaries.request(next, { ...asked, to, hosts: [] })).status).toBe('open')
      expect((await boundaries.request(next, { ...asked, to, hosts: ['a.test:443'] })).status).toBe('open')
    }
    expect(boundaries.show(next)).toMatchObject({ level: 'readonly', hosts: [] })
  }
})

test('a yes to files and a host opens no other host, whoever asks for it', async () => {
  const asked = { source: 'agent', by: 'agent', why: 'npm install' } as const
  const { boundaries, id, project } = await theatre.stage('readonly')
  await boundaries.request(id, { ...asked, to: 'network', hosts: ['a.test:443'] })
  await boundaries.approve(id, { requests: null, by: 'person', message: '', scope: 'user' })
  for (const from of ['readonly', 'readwrite', 'network'] as const) {
    const next = theatre.newId()
    theatre.addDispatch(next, project, from, 'claude', null)
    const status = async (to: BoundaryLevel, hosts: string[]) =>
      (await boundaries.request(next, { ...asked, to, hosts })).status
    expect(await status('network', ['b.test:443'])).toBe('open')
    expect(await status('full', [])).toBe('open')
    expect(await status('full', ['a.test:443'])).toBe('open')
    if (from !== 'network') expect(await status('network', [])).toBe('open')
  }
})

test('a request that nobody answered in time stays an expired one when the run is over', async () => {
  const { boundaries, id, advance } = await theatre.stage('readwrite')
  const wish = { to: 'network', source: 'agent', by: 'agent', why: 'test' } as const
  await boundaries.request(id, { ...wish, hosts: ['a.test'] })
  advance(3_600_000)
  expect(boundaries.lapsed(id)).toMatchObject([{ status: 'expired' }])
  // The control: one that was open at the end.
  await boundaries.request(id, { ...wish, hosts: ['b.test'] })
  boundaries.lapsed(id)
  theatre.store.dispatches.finish(id, {
    status: 'completed',
    exitCode: 0,
    error: null,
    effective: null,
    endedAt: '2026-01-01T13:00:00.000Z',
    lastEventHash: null,
  })
  advance(3_600_000)
  expect(boundaries.show(id).requests.map(({ status }) => status)).toEqual(['expired', 'closed'])
})

test('a yes that is saved in a read-only phase counts in that phase and in no other', async () => {
  for (const scope of ['project', 'user'] as const) {
    const { boundaries, id, project } = await theatre.stage('readonly', 'claude', 'plan')
    const wish = { to: 'network', hosts: ['a.test:443'], source: 'agent', by: 'agent', why: 'it' } as const
    await boundaries.request(id, wish)
    await boundaries.approve(id, { requests: null, by: 'person', message: '', scope })
    const { saved } = await boundaries.approvals([project])
    expect(saved).toMatchObject([
      { level: 'readwrite', hosts: [], phase: 'plan' },
      { level: 'network', hosts: ['a.test:443'], phase: 'plan' },
    ])
    for (const [phase, status] of [
      ['plan', 'approved'],
      ['learn', 'open'],
    ] as const) {
      const next = theatre.newId()
      theatre.addDispatch(next, project, 'readonly', 'claude', null, phase)
      expect(await boundaries.denied(next, { kind: 'write', path: '/a' })).toMatchObject({ status })
      expect(await boundaries.request(next, wish)).toMatchObject({ status })
    }
  }
})

test.each(['before', 'after', 'overtaken'] as const)(
  'a live change that fails (%s) leaves nothing of it approved for the task',
  async (mode) => {
    const { boundaries, id, project, failNext } = await theatre.stage('readwrite')
    const wish = { to: 'network', hosts: ['a.test'], source: 'agent', by: 'agent', why: 'it' } as const
    const yes = { requests: null, by: 'person', message: '', scope: 'task' } as const
    const listed = async () =>
      (await boundaries.approvals([project])).tasks.filter(
        ({ task, revoked_at: revoked }) => task === id && revoked === null,
      )
    // The control: one that took is listed, before and after.
    await boundaries.request(id, { ...wish, hosts: ['b.test'] })
    await boundaries.approve(id, yes)
    await boundaries.request(id, wish)
    failNext(mode)
    await expect(boundaries.approve(id, yes)).rejects.toThrow()
    expect((await listed()).map(({ hosts }) => hosts)).toEqual([['b.test']])
    // Asked again, the same yes is one of its own.
    await boundaries.request(id, wish)
    await boundaries.approve(id, yes)
    expect((await listed()).map(({ hosts }) => hosts)).toContainEqual(['a.test'])
  },
)
