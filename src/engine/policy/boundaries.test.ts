import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { narrowBoundary, undoGrant } from './answers.ts'
import { Boundaries } from './boundaries.ts'
import { wishOfDenial } from './denial.ts'
import { current } from './step.ts'
import { contractOf, Theatre, wish } from './testing.ts'

let theatre: Theatre
beforeAll(async () => {
  theatre = await Theatre.open()
})
afterAll(() => theatre[Symbol.asyncDispose]())

describe('the pipeline', () => {
  test('an approval saved to the project answers the next dispatch there without asking, and no other project', async () => {
    const { boundaries, id, project, live, user, userConfigDir } = await theatre.stage()
    const request = await boundaries.request(id, wish)
    expect(request.status).toBe('open')
    expect(live.level).toBe('readwrite')
    await boundaries.approve(id, { requests: null, by: 'person', message: '', scope: 'project' })
    expect(live).toMatchObject({ level: 'network', hosts: ['registry.test:443'] })

    const next = theatre.newId()
    theatre.addDispatch(next, project, 'readwrite', 'claude', null)
    expect(await boundaries.request(next, wish)).toMatchObject({
      status: 'approved',
      answer: { way: 'saved' },
    })

    const elsewhere = join(theatre.home, 'elsewhere')
    await mkdir(elsewhere)
    const other = theatre.newId()
    theatre.addDispatch(other, elsewhere, 'readwrite', 'claude', null)
    expect((await boundaries.request(other, wish)).status).toBe('open')
    await user({ sandboxApprovedEscalations: [{ agent: 'claude', level: 'network', hosts: ['*.test'] }] })
    await boundaries.reconsider(other)
    expect(boundaries.show(other)).toMatchObject({ level: 'network', requests: [{ status: 'approved' }] })

    const { saved } = await boundaries.approvals([project])
    expect(saved.map(({ source }) => source)).toEqual(['project', 'user'])
    expect(await boundaries.revoke(saved[0]!.id, [project])).toEqual([
      expect.stringContaining('.orangery.json'),
    ])
    await expect(boundaries.revoke(saved[0]!.id, [project])).rejects.toMatchObject({ kind: 'not_found' })
    expect(userConfigDir).not.toBe('')
  })

  test('a yes that cannot be saved never was one, and nobody who waits for it hears of it', async () => {
    const { boundaries, id, userConfigDir } = await theatre.stage()
    await boundaries.request(id, wish)
    await rm(join(userConfigDir, '.locks'), { recursive: true, force: true })
    await writeFile(join(userConfigDir, '.locks'), '')
    const yes = { requests: null, by: 'person', message: '', scope: 'project' as const }
    await expect(boundaries.approve(id, yes)).rejects.toMatchObject({ code: 'config.unwritable' })
    expect(boundaries.show(id)).toMatchObject({
      level: 'readwrite',
      history: [],
      requests: [{ status: 'open' }],
    })
    await rm(join(userConfigDir, '.locks'))
    await boundaries.approve(id, yes)
    expect(boundaries.show(id)).toMatchObject({ level: 'network', requests: [{ status: 'approved' }] })
  })

  test('no child gets through a saved approval what its parent would have to ask for', async () => {
    const { boundaries, id, project, user } = await theatre.stage('readwrite')
    const saved = { agent: '*', level: 'network' as const, hosts: ['registry.test:443'] }
    await user({ sandboxApprovedEscalations: [saved] })
    const child = theatre.newId()
    theatre.addDispatch(child, project, 'readwrite', 'claude', id)
    const beyond = { code: 'boundary.beyond_parent', kind: 'refused' }
    await expect(boundaries.request(child, wish)).rejects.toMatchObject(beyond)
    // What was seen outside is there for a person, who has to widen the parent first.
    const seen = await boundaries.denied(child, { kind: 'host', host: 'registry.test', port: 443 })
    expect(seen).toMatchObject({ status: 'open', source: 'broker' })
    const yes = { requests: [seen?.id ?? ''], by: 'p', message: '', scope: 'once' as const }
    await expect(boundaries.approve(child, yes)).rejects.toMatchObject(beyond)
    // The control: once the parent has it, the child gets it by the same approval.
    expect(await boundaries.request(id, wish)).toMatchObject({ status: 'approved', answer: { way: 'saved' } })
    expect(await boundaries.request(child, wish)).toMatchObject({ status: 'approved' })
    expect(boundaries.show(child)).toMatchObject({ level: 'network', hosts: ['registry.test:443'] })
  })

  test('a repository’s file that nobody can read keeps neither a person nor the user’s maximum from narrowing', async () => {
    const { boundaries, id, project, user } = await theatre.stage('full')
    await writeFile(join(project, '.orangery.json'), '{')
    await user({ sandboxMaximumBoundary: 'network' })
    await expect(boundaries.reconsider(id)).rejects.toMatchObject({ kind: 'input' })
    expect(boundaries.show(id).level).toBe('network')
    await boundaries.narrow(id, { to: 'readonly', by: 'p', why: '', way: 'narrowed' })
    expect(boundaries.show(id).level).toBe('readonly')
    await rm(join(project, '.orangery.json'))
  })

  test('no approval of the task takes a child beyond a parent that the config has narrowed', async () => {
    const { boundaries, contracts, id, project, user } = await theatre.stage('network')
    contracts.set(id, contractOf(project, { boundary: 'network', outputs: { mode: 'open' } }))
    const [child, sibling] = [theatre.newId(), theatre.newId()]
    for (const each of [child, sibling]) theatre.addDispatch(each, project, 'readwrite', 'claude', id)
    for (const each of [child, sibling]) await boundaries.request(each, wish)
    await boundaries.approve(sibling, { requests: null, by: 'p', message: '', scope: 'task' })
    await user({ sandboxMaximumBoundary: 'readwrite' })
    for (const each of [id, child, sibling]) await boundaries.reconsider(each)
    await user({ sandboxMaximumBoundary: 'full' })
    for (const each of [id, child]) await boundaries.reconsider(each)
    expect(boundaries.show(id).level).toBe('readwrite')
    expect(boundaries.show(child)).toMatchObject({ level: 'readwrite', requests: [{ status: 'open' }] })
  })

  test('what a person takes from an agent is taken from its children, and comes back to none by itself', async () => {
    const { boundaries, id, project, user, failNext } = await theatre.stage('network')
    const saved = { agent: '*', level: 'network' as const, hosts: ['registry.test:443'] }
    await user({ sandboxApprovedEscalations: [saved] })
    const child = theatre.newId()
    const grandchild = theatre.newId()
    theatre.addDispatch(child, project, 'readwrite', 'claude', id)
    theatre.addDispatch(grandchild, project, 'network', 'claude', child)
    const narrowing = { to: 'readonly', by: 'person', why: 'enough', way: 'narrowed' } as const
    failNext('before')
    // It holds for all the others, also where one of them does not let go.
    await expect(boundaries.narrow(id, narrowing)).rejects.toThrow(`its child ${child} was not narrowed`)
    expect([id, grandchild].map((each) => boundaries.show(each).level)).toEqual(['readonly', 'readonly'])
    await boundaries.narrow(id, narrowing)
    expect([id, child, grandchild].map((each) => boundaries.show(each).level)).toEqual(
      Array.from({ length: 3 }, () => 'readonly'),
    )
    const young = theatre.newId()
    theatre.addDispatch(young, project, 'readonly', 'claude', id)
    await expect(boundaries.request(young, wish)).rejects.toMatchObject({ code: 'boundary.beyond_parent' })
  })

  test('a child that is being started has the level its parent was narrowed to meanwhile, before its first instruction and after', async () => {
    const { boundaries, id, project, userConfigDir, contracts } = await theatre.stage('network')
    await boundaries.narrow(id, { to: 'readonly', by: 'person', why: 'enough', way: 'narrowed' })
    const late = theatre.newId()
    theatre.addDispatch(late, project, 'network', 'claude', id)
    expect(boundaries.inherit(late)).toMatchObject({ from: 'network', to: 'readonly', hosts: [] })
    expect(boundaries.inherit(late)).toBeNull()
    expect(boundaries.show(late)).toMatchObject({
      level: 'readonly',
      history: [{ way: 'narrowed', why: `its parent ${id} was narrowed to readonly` }],
    })
    // One that looked at its parent just before.
    const other = await theatre.stage('network')
    const young = theatre.newId()
    const narrowing = new Boundaries({
      records: theatre.store.boundaries,
      userConfigDir,
      apply: async (of) => {
        if (of === other.id) theatre.addDispatch(young, other.project, 'network', 'claude', other.id)
      },
      contractOf: async (of) => contracts.get(of) ?? contractOf(project, {}),
      tell: async () => {},
    })
    await narrowing.narrow(other.id, { to: 'readonly', by: 'person', why: '', way: 'narrowed' })
    expect(narrowing.show(young).level).toBe('readonly')
  })

  test('a child in a project of its own is narrowed with its parent where the parent’s config lowers the maximum', async () => {
    const { boundaries, id, project, own } = await theatre.stage('network')
    const inner = join(project, 'inner')
    await mkdir(join(inner, '.git'), { recursive: true })
    const child = theatre.newId()
    theatre.addDispatch(child, inner, 'network', 'claude', id)
    await own({ sandboxMaximumBoundary: 'readonly' })
    await boundaries.reconsider(child)
    expect(boundaries.show(child).level).toBe('network')
    await boundaries.reconsider(id)
    expect([id, child].map((each) => boundaries.show(each).level)).toEqual(['readonly', 'readonly'])
    expect(boundaries.show(child).history).toMatchObject([{ way: 'config', to: 'readonly' }])
  })

  test('an approval for the task answers a child, until it is revoked', async () => {
    const { boundaries, id, project } = await theatre.stage()
    await boundaries.request(id, wish)
    await boundaries.approve(id, { requests: null, by: 'person', message: '', scope: 'task' })
    const child = theatre.newId()
    theatre.addDispatch(child, project, 'readwrite', 'claude', id)
    expect(await boundaries.request(child, wish)).toMatchObject({
      status: 'approved',
      answer: { way: 'saved' },
    })
    const { tasks } = await boundaries.approvals([project])
    const approval = tasks.find(({ task }) => task === id)!
    expect(await boundaries.revoke(approval.id, [project])).toEqual(['task'])
    const second = theatre.newId()
    theatre.addDispatch(second, project, 'readwrite', 'claude', id)
    expect((await boundaries.request(second, wish)).status).toBe('open')
  })

  test('an agent that waits is told the person’s words', async () => {
    const { boundaries, id, events } = await theatre.stage()
    const { id: request } = await boundaries.request(id, wish)
    const waiting = boundaries.waitFor(id, request)
    await boundaries.deny(id, { requests: [request], by: 'person', message: 'use the mirror' })
    expect(await waiting).toMatchObject({
      status: 'denied',
      answer: { by: 'person', message: 'use the mirror' },
    })
    expect(events.map(({ type }) => type)).toEqual(['BoundaryRequested', 'BoundaryDenied'])
  })

  test('an agent that waits too long is told that the request expired', async () => {
    const { boundaries, id, advance } = await theatre.stage()
    const { id: request } = await boundaries.request(id, wish)
    const waiting = boundaries.waitFor(id, request)
    advance(3_600_000)
    expect((await waiting).status).toBe('expired')
    expect(boundaries.inbox().filter(({ dispatch }) => dispatch === id)).toEqual([])
  })

  test.each(['before', 'after', 'gone'] as const)(
    'a live change that fails (%s) leaves the request open and nothing widened',
    async (mode) => {
      const { boundaries, id, live, failNext } = await theatre.stage()
      await boundaries.request(id, wish)
      failNext(mode)
      const answering = { requests: null, by: 'person', message: '', scope: 'once' as const }
      await expect(boundaries.approve(id, answering)).rejects.toThrow()
      expect(live).toMatchObject({ level: 'readwrite', hosts: [] })
      expect(boundaries.show(id)).toMatchObject({ level: 'readwrite', requests: [{ status: 'open' }] })
      await boundaries.approve(id, answering)
      expect(live.level).toBe('network')
    },
  )

  test('a yes that took stays one when the run ends before it could say so', async () => {
    const { boundaries, id, failNext } = await theatre.stage()
    await boundaries.request(id, wish)
    failNext('ended')
    const answering = { requests: null, by: 'person', message: '', scope: 'once' as const }
    expect(await boundaries.approve(id, answering)).toMatchObject([{ status: 'approved' }])
    const { requests, history } = boundaries.show(id)
    expect(requests).toMatchObject([{ status: 'approved' }])
    expect(history.map(({ way }) => way)).toEqual(['once'])
  })

  test.each(['project', 'user'] as const)(
    'a live change that fails leaves nothing saved to the %s, so that a no after it is one',
    async (scope) => {
      const { boundaries, id, project, failNext } = await theatre.stage()
      await boundaries.request(id, wish)
      failNext('before')
      const yes = { requests: null, by: 'person', message: '', scope }
      await expect(boundaries.approve(id, yes)).rejects.toThrow()
      const theirs = async () =>
        (await boundaries.approvals([project])).saved.filter(({ hosts }) => hosts.includes(wish.hosts[0]))
      expect(await theirs()).toEqual([])
      await boundaries.deny(id, { requests: null, by: 'person', message: 'no then' })
      const next = theatre.newId()
      theatre.addDispatch(next, project, 'readwrite', 'claude', null)
      expect((await boundaries.request(next, wish)).status).toBe('open')
      // The control: where it takes, it is saved.
      await boundaries.approve(next, yes)
      expect(await theirs()).toHaveLength(1)
    },
  )

  test('a widening that fails does not give back what a person took meanwhile', async () => {
    const { boundaries, id, live, failNext } = await theatre.stage('readwrite')
    await boundaries.request(id, wish)
    failNext('overtaken')
    const answering = { requests: null, by: 'person', message: '', scope: 'once' as const }
    await expect(boundaries.approve(id, answering)).rejects.toThrow('EBUSY')
    expect(live).toMatchObject({ level: 'readonly', hosts: [] })
    expect(boundaries.show(id)).toMatchObject({
      level: 'readonly',
      hosts: [],
      // Nor would a second yes to the same question: it was asked from where it is no more.
      requests: [{ status: 'closed' }],
    })
  })

  test('an approval is saved for the folders a person named, and for no others', async () => {
    const set = await theatre.stage()
    const inner = join(set.project, 'packages')
    await mkdir(inner)
    const answer = { requests: null, by: 'person', message: '' }
    await set.boundaries.request(set.id, wish)
    const elsewhere = { ...answer, scope: 'user', covers: ['/usr'] } as const
    await expect(set.boundaries.approve(set.id, elsewhere)).rejects.toThrow(/none of this dispatch/)
    const once = { ...answer, scope: 'once', covers: [inner] } as const
    await expect(set.boundaries.approve(set.id, once)).rejects.toThrow(/only what is saved/)
    await set.boundaries.approve(set.id, { ...answer, scope: 'user', covers: [inner] })
    await set.boundaries.request(set.id, { ...wish, hosts: ['other.test:1'] })
    await set.boundaries.approve(set.id, { ...answer, scope: 'project', covers: [inner] })
    // A project's file names folders from where it stands, so that it means the same in every checkout.
    expect((await set.boundaries.approvals([set.project])).saved).toMatchObject([
      { source: 'project', roots: ['packages'], covers: [inner] },
      { source: 'user', roots: [inner], covers: [inner] },
    ])
    const here = async (root: string) =>
      (await set.boundaries.approvals([root])).saved.flatMap((each) =>
        each.source === 'user' ? each.here : [],
      )
    expect([await here(inner), await here(set.project)]).toEqual([[true], [false]])
    const answered = async (root: string) => {
      const id = theatre.newId()
      theatre.addDispatch(id, root, 'readwrite', 'claude', null)
      return (await set.boundaries.request(id, wish)).status
    }
    expect([await answered(inner), await answered(set.project)]).toEqual(['approved', 'open'])
  })

  test('what was denied only by a narrowing that failed asks nobody, and what an agent asked stays', async () => {
    const set = await theatre.stage('network')
    await set.boundaries.request(set.id, { ...wish, hosts: ['c.test:1'] })
    const state = theatre.store.boundaries.read(set.id)
    const at = set.now()
    const narrowing = { to: 'readonly', by: 'you', why: '', way: 'narrowed' } as const
    const narrowed = narrowBoundary(state, narrowing, { at }).state
    const asked = state.requests.map((request) => ({
      ...request,
      id: 'denied',
      source: 'broker' as const,
    }))
    const grants = narrowed.grants.length
    const undoing = { before: current(state), grants, forTask: [], why: 'EBUSY', at }
    const left = undoGrant(
      { ...narrowed, requests: [...narrowed.requests, ...asked] },
      narrowed.requests,
      undoing,
    )
    expect(left.requests.map(({ source, status }) => `${source} ${status}`)).toEqual([
      'agent open',
      'broker closed',
    ])
    expect(current(left).level).toBe('network')
  })

  test('an approval is saved with the end a person gave it, and asks again after that', async () => {
    const { boundaries, id, project, advance, now } = await theatre.stage()
    await boundaries.request(id, wish)
    const expires = new Date(now().getTime() + 86_400_000).toISOString()
    const answering = { requests: null, by: 'person', message: '', scope: 'project' as const }
    const bad = { kind: 'input', code: 'boundary.expires' }
    await expect(boundaries.approve(id, { ...answering, scope: 'task', expires })).rejects.toMatchObject(bad)
    const passed = new Date(now().getTime() - 1).toISOString()
    await expect(boundaries.approve(id, { ...answering, expires: passed })).rejects.toMatchObject(bad)
    await boundaries.approve(id, { ...answering, expires })
    expect((await boundaries.approvals([project])).saved).toMatchObject([{ expires, expired: false }])
    const later = async () => {
      const next = theatre.newId()
      theatre.addDispatch(next, project, 'readwrite', 'claude', null)
      return (await boundaries.request(next, wish)).status
    }
    expect(await later()).toBe('approved')
    advance(86_400_000)
    expect(await later()).toBe('open')
    expect((await boundaries.approvals([project])).saved).toMatchObject([{ expires, expired: true }])
  })

  test('a clock that is set back keeps no denial from being asked about', async () => {
    const { boundaries, id, advance } = await theatre.stage()
    const denial = { kind: 'host', host: 'one.test', port: 443 } as const
    const first = await boundaries.denied(id, denial)
    await boundaries.approve(id, { requests: [first!.id], by: 'person', message: '', scope: 'once' })
    await boundaries.narrow(id, { to: 'readwrite', by: 'person', why: '', way: 'narrowed' })
    advance(-3_600_000)
    expect(await boundaries.denied(id, denial)).toMatchObject({ status: 'open' })
  })

  test('two people who answer at the same moment: one is told that it is answered', async () => {
    const { boundaries, make, id } = await theatre.stage()
    const { id: request } = await boundaries.request(id, wish)
    const answering = { requests: [request], by: 'person', message: '' }
    const outcomes = await Promise.allSettled([
      boundaries.approve(id, { ...answering, scope: 'once' }),
      make().deny(id, answering),
    ])
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  })

  test('a retry loop that is denied a thousand times is one request, and a flood of names is cut off', async () => {
    const { boundaries, id, advance } = await theatre.stage()
    for (let round = 0; round < 100; round++) {
      await boundaries.denied(id, { kind: 'host', host: 'one.test', port: 443 })
      if (round % 20 === 0) advance(3_000)
    }
    expect(boundaries.show(id).requests).toMatchObject([{ hosts: ['one.test:443'], status: 'open' }])
    for (let name = 0; name < 50; name++) {
      await boundaries.denied(id, { kind: 'host', host: `n${name}.test`, port: 443 })
    }
    expect(boundaries.show(id).requests.length).toBeLessThanOrEqual(10)
  })

  test('a config that lowers the maximum narrows what runs', async () => {
    const { boundaries, id, live, user } = await theatre.stage('network')
    await user({ sandboxMaximumBoundary: 'readonly' })
    await boundaries.reconsiderAll()
    expect(live.level).toBe('readonly')
    // Hosts first: who holds a file open keeps that and no more.
    expect(boundaries.show(id).history).toMatchObject([
      { from: 'network', to: 'readwrite', by: 'config' },
      { from: 'readwrite', to: 'readonly', by: 'config' },
    ])
  })

  test('what a denial asks for is the host, or the write, and nothing more', () => {
    const host = { kind: 'host', host: 'a.test', port: 80 } as const
    expect(wishOfDenial('readonly', host)).toMatchObject({ to: 'readonly', hosts: ['a.test:80'] })
    expect(wishOfDenial('readwrite', host)).toMatchObject({ to: 'network', hosts: ['a.test:80'] })
    // A look-up names no port, and asks for no more than was taken back.
    const lookup = { ...host, port: null }
    expect(wishOfDenial('network', lookup)).toMatchObject({ hosts: ['a.test'] })
    expect(wishOfDenial('network', lookup, ['a.test:80', '*.test:443', 'b.test:22'])).toMatchObject({
      hosts: ['a.test:80', 'a.test:443'],
    })
    expect(wishOfDenial('full', host)).toMatchObject({ to: 'network', hosts: ['a.test:80'] })
    expect(wishOfDenial('network', { ...host, host: '::1' })).toMatchObject({
      to: 'network',
      hosts: ['[::1]:80'],
    })
    expect(wishOfDenial('readonly', { kind: 'write', path: '/x' })).toMatchObject({
      to: 'readwrite',
      hosts: [],
      source: 'driver',
    })
  })

  test('a write that the driver denied is one request, which a person, an earlier yes or the policy answers', async () => {
    const deny = (set: Awaited<ReturnType<Theatre['stage']>>, path: string, id = set.id) =>
      set.boundaries.denied(id, { kind: 'write', path })
    const set = await theatre.stage('readonly')
    expect(await deny(set, '/p/x')).toMatchObject({
      status: 'open',
      source: 'driver',
      to: 'readwrite',
      why: 'a write was denied: /p/x',
    })
    expect(await deny(set, '/p/y')).toMatchObject({ status: 'open', count: 2 })
    const asked = await set.boundaries.request(set.id, {
      ...wish,
      to: 'readwrite',
      hosts: [],
      why: 'to save it',
    })
    expect(asked).toMatchObject({ count: 3, why: 'a write was denied: /p/x; to save it' })
    expect(set.boundaries.show(set.id).requests).toMatchObject([{ count: 3, why: asked.why }])
    await set.user({ sandboxApprovedEscalations: [{ agent: '*', level: 'readwrite', hosts: [] }] })
    await set.boundaries.reconsider(set.id)
    expect(set.live.level).toBe('readwrite')
    expect(await deny(set, '/p/z')).toBeNull()

    const automatic = await theatre.stage('readonly')
    await automatic.user({
      sandboxEscalationPolicy: 'auto',
      sandboxAutoEscalation: { hosts: [], roots: [theatre.home] },
    })
    expect(await deny(automatic, '/p/x')).toMatchObject({ status: 'approved', answer: { way: 'auto' } })
    // A plan is meant to read: only a person makes it write.
    const plan = theatre.newId()
    theatre.addDispatch(plan, automatic.project, 'readonly', 'claude', null, 'plan')
    expect(await deny(automatic, '/p/x', plan)).toMatchObject({ status: 'open' })
  })
})
