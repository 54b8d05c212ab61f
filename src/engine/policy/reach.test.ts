import { afterAll, beforeAll, expect, test } from 'vitest'
import type { DispatchId } from '../../shared/ids.ts'
import type { Outputs } from '../../shared/spec.ts'
import { defaultConfig } from './config/merge.ts'
import { escalationLimits } from './escalation.ts'
import { networkNow } from './reach.ts'
import { contractOf, Theatre } from './testing.ts'

let theatre: Theatre
beforeAll(async () => {
  theatre = await Theatre.open()
})
afterAll(() => theatre[Symbol.asyncDispose]())

const yes = { requests: null, by: 'person', message: '', scope: 'once' } as const
const asks = { to: 'full', hosts: [], source: 'agent', by: 'agent', why: 'test' } as const

test.each<Outputs>([
  { mode: 'none', deny: ['bad.test'] },
  { mode: 'restricted', allow: ['own.test'], deny: ['bad.test'] },
])(
  'a person’s yes to full opens every public host that nothing denies, with outputs %o too, until it is narrowed',
  async (outputs) => {
    const { boundaries, id, project } = await theatre.stage('network')
    const contract = contractOf(project, { boundary: 'network', outputs })
    const now = () => networkNow(contract, theatre.store.boundaries.read(id), defaultConfig())
    const before = now()
    expect(before.mode).toBe(outputs.mode)
    await boundaries.request(id, asks)
    expect(now()).toEqual(before)
    await boundaries.approve(id, yes)
    expect(now()).toMatchObject({ mode: 'open', deny: ['bad.test'] })
    // A child has no more than its parent, and its parent is not asked here.
    const state = theatre.store.boundaries.read(id)
    expect(networkNow(contract, { ...state, ancestors: [state] }, defaultConfig()).mode).toBe(outputs.mode)
    await boundaries.narrow(id, { hosts: ['a.test'], by: 'person', why: '', way: 'narrowed' })
    expect(now()).toMatchObject({ mode: 'open', taken: ['a.test'] })
    await boundaries.narrow(id, { to: 'network', by: 'person', why: '', way: 'narrowed' })
    expect(now().mode).not.toBe('open')
  },
)

test('full by a saved approval, or from the start, opens no more than the outputs that the contract names', async () => {
  const saved = await theatre.stage('network')
  await saved.user({ sandboxApprovedEscalations: [{ agent: '*', level: 'full', hosts: [] }] })
  await saved.boundaries.request(saved.id, asks)
  const started = await theatre.stage('full')
  for (const { id, project, boundaries } of [saved, started]) {
    expect(boundaries.show(id).level).toBe('full')
    const contract = contractOf(project, {
      boundary: 'network',
      outputs: { mode: 'restricted', allow: ['a.test'] },
    })
    const policy = networkNow(contract, theatre.store.boundaries.read(id), defaultConfig())
    expect(policy).toMatchObject({ mode: 'restricted', allow: ['a.test'] })
  }
})

test.each<Outputs>([{ mode: 'none' }, { mode: 'restricted', allow: ['own.test'] }])(
  'a yes to one host of a run at full opens that host and no other, with outputs %o (escape: one-host-for-all)',
  async (outputs) => {
    const { boundaries, id, project, contracts } = await theatre.stage('full')
    const contract = contractOf(project, { boundary: 'full', outputs })
    contracts.set(id, contract)
    const now = () => networkNow(contract, theatre.store.boundaries.read(id), defaultConfig())
    const denied = await boundaries.denied(id, { kind: 'host', host: 'a.test', port: 80 })
    expect(denied).toMatchObject({ to: 'network', hosts: ['a.test:80'], status: 'open' })
    await boundaries.request(id, { ...asks, hosts: ['b.test:80'] })
    await boundaries.approve(id, yes)
    expect(boundaries.show(id).level).toBe('full')
    expect(now()).toMatchObject({ mode: 'restricted' })
    expect(now().allow).toEqual(expect.arrayContaining(['a.test:80', 'b.test:80']))
  },
)

test('a yes to a host that was denied at full lifts nothing back to full where it was narrowed since', async () => {
  const { boundaries, id, project, contracts, advance } = await theatre.stage('full')
  contracts.set(id, contractOf(project, { boundary: 'full', outputs: { mode: 'none' } }))
  const denial = { kind: 'host', host: 'a.test', port: 80 } as const
  await boundaries.denied(id, denial)
  await boundaries.narrow(id, { to: 'readwrite', by: 'person', why: '', way: 'narrowed' })
  // The question from before is closed; the next attempt asks from here.
  await expect(boundaries.approve(id, yes)).rejects.toMatchObject({ code: 'boundary.nothing_open' })
  advance(3_000)
  await boundaries.denied(id, denial)
  await boundaries.approve(id, yes)
  expect(boundaries.show(id)).toMatchObject({ level: 'network', hosts: ['a.test:80'] })
})

test('a request for full by a run at full whose outputs are named waits for a person, whose yes opens the rest', async () => {
  const { boundaries, id, project, contracts, user } = await theatre.stage('full')
  await user({ sandboxApprovedEscalations: [{ agent: '*', level: 'full', hosts: [] }] })
  const contract = contractOf(project, { boundary: 'full', outputs: { mode: 'none' } })
  contracts.set(id, contract)
  const now = () => networkNow(contract, theatre.store.boundaries.read(id), defaultConfig())
  expect(await boundaries.request(id, asks)).toMatchObject({ status: 'open' })
  await boundaries.reconsider(id)
  expect(now().mode).toBe('none')
  await boundaries.approve(id, yes)
  expect(now().mode).toBe('open')
  expect(await boundaries.request(id, asks)).toMatchObject({ status: 'approved', answer: { way: 'config' } })
  // Where nobody named outputs, all is open as it is.
  const open = await theatre.stage('full')
  expect(await open.boundaries.request(open.id, asks)).toMatchObject({ status: 'approved' })
})

test('a yes to full is over with the narrowing, and full by a saved approval later is no more than that', async () => {
  const { boundaries, id, project, user } = await theatre.stage('network')
  const contract = contractOf(project, {
    boundary: 'network',
    outputs: { mode: 'restricted', allow: ['a.test'] },
  })
  const mode = () => networkNow(contract, theatre.store.boundaries.read(id), defaultConfig()).mode
  await boundaries.request(id, asks)
  await boundaries.approve(id, yes)
  expect(mode()).toBe('open')
  await user({ sandboxMaximumBoundary: 'network' })
  await boundaries.reconsider(id)
  await user({ sandboxApprovedEscalations: [{ agent: '*', level: 'full', hosts: [] }] })
  await boundaries.request(id, asks)
  expect(boundaries.show(id).level).toBe('full')
  expect(mode()).toBe('restricted')
})

/** As many requests as a dispatch of some hours makes, answered by an earlier yes. */
function answerMany(id: DispatchId, at: Date, many: number): void {
  const made = at.toISOString()
  theatre.store.boundaries.change(id, (state) => {
    const more = Array.from({ length: many }, (_, index) => ({
      ...asks,
      id: `${id}-${index}`,
      dispatch: id,
      to: 'network' as const,
      hosts: [`h${index}.many.test:443`],
      status: 'approved' as const,
      count: 1,
      created_at: made,
      last_at: made,
      expires_at: made,
      answer: { at: made, by: 'person', way: 'saved' as const, message: '' },
    }))
    return { state: { ...state, requests: [...state.requests, ...more] }, result: null }
  })
}

test('a yes to full goes on holding however many requests come after it, and so does a denial', async () => {
  const { boundaries, id, project, advance, now: at, contracts } = await theatre.stage('network')
  const contract = contractOf(project, { boundary: 'network', outputs: { mode: 'none' } })
  contracts.set(id, contract)
  const now = () => networkNow(contract, theatre.store.boundaries.read(id), defaultConfig())
  const tracker = { ...asks, to: 'network', hosts: ['tracker.test:9443'] } as const
  await boundaries.request(id, asks)
  await boundaries.approve(id, yes)
  await boundaries.request(id, tracker)
  await boundaries.deny(id, { requests: null, by: 'person', message: 'no' })
  advance(1000)
  answerMany(id, at(), 1000)
  expect(now().mode).toBe('open')
  expect(await boundaries.request(id, tracker)).toMatchObject({ status: 'denied', count: 2 })
})

test('an earlier yes that names a pattern opens no end of hosts one by one: beyond many a person is asked', async () => {
  const { boundaries, id, user } = await theatre.stage('readwrite')
  await user({ sandboxApprovedEscalations: [{ agent: '*', level: 'network', hosts: ['*.many.test'] }] })
  const ask = (from: number, count: number) => {
    const hosts = Array.from({ length: count }, (_, index) => `h${from + index}.many.test:443`)
    return boundaries.request(id, { ...asks, to: 'network', hosts })
  }
  expect(await ask(0, 299)).toMatchObject({ status: 'approved' })
  expect(await ask(300, 1)).toMatchObject({ status: 'approved' })
  expect(await ask(301, 1)).toMatchObject({ status: 'open' })
  await boundaries.reconsider(id)
  expect(boundaries.show(id).requests.at(-1)).toMatchObject({ status: 'open' })
  await boundaries.approve(id, yes)
  expect(boundaries.show(id).hosts).toHaveLength(301)
})

test('what an earlier yes answers is counted beside however much that is open', async () => {
  const { boundaries, id, user, advance, now: at } = await theatre.stage('network')
  await user({ sandboxApprovedEscalations: [{ agent: '*', level: 'network', hosts: ['*.many.test'] }] })
  const ask = (host: string) => boundaries.request(id, { ...asks, to: 'network', hosts: [host] })
  for (let count = 0; count < escalationLimits.floodRequests; count++) await ask(`open${count}.test:443`)
  advance(61_000)
  answerMany(id, at(), escalationLimits.floodAnswered - 1)
  expect(await ask('last.many.test:443')).toMatchObject({ status: 'approved' })
  await expect(ask('more.many.test:443')).rejects.toMatchObject({ code: 'boundary.flood' })
})

test.each<Outputs>([
  { mode: 'open' },
  { mode: 'restricted', allow: ['a.test'] },
  { mode: 'restricted', pins: { '10.9.0.0/16': '127.0.0.1:1' } },
])(
  'who narrows a run takes back what it reached over read-only files, with outputs %o (escape: open-below-narrowing)',
  async (outputs) => {
    const { boundaries, id, project } = await theatre.stage('readonly')
    const contract = contractOf(project, { access_mode: 'read-only', outputs })
    const now = () => networkNow(contract, theatre.store.boundaries.read(id), defaultConfig())
    const before = now()
    expect(before.mode).toBe(outputs.mode)
    await boundaries.narrow(id, { hosts: ['b.test'], by: 'person', why: '', way: 'narrowed' })
    expect(now().mode).toBe(outputs.mode)
    await boundaries.narrow(id, { to: 'readonly', by: 'person', why: '', way: 'narrowed' })
    expect(now().mode).toBe('none')
    // A yes to one host is a yes to that one; one to the network opens what the contract names.
    await boundaries.request(id, { ...asks, to: 'network', hosts: ['c.test:80'] })
    await boundaries.approve(id, yes)
    expect(now()).toMatchObject({ mode: 'restricted', allow: ['c.test:80'] })
    await boundaries.narrow(id, { to: 'readonly', by: 'person', why: '', way: 'narrowed' })
    await boundaries.request(id, { ...asks, to: 'network' })
    await boundaries.approve(id, yes)
    expect(now().mode).toBe(outputs.mode)
  },
)

test('a child that reaches hosts over read-only files is narrowed with its parent, also while it starts', async () => {
  const { boundaries, id, project } = await theatre.stage('network')
  const outputs = { mode: 'open' } as const
  const contract = contractOf(project, { access_mode: 'read-only', outputs })
  const child = theatre.newId()
  theatre.addDispatch(child, project, 'readonly', 'claude', id)
  const now = (of: DispatchId) =>
    networkNow(contract, theatre.store.boundaries.read(of), defaultConfig()).mode
  expect(now(child)).toBe('open')
  await boundaries.narrow(id, { to: 'readwrite', by: 'person', why: '', way: 'narrowed' })
  expect(now(child)).toBe('none')
  const late = theatre.newId()
  theatre.addDispatch(late, project, 'readonly', 'claude', id)
  expect(now(late)).toBe('open')
  boundaries.inherit(late)
  expect(now(late)).toBe('none')
})
