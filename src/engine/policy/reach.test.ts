import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Outputs } from '../../shared/spec.ts'
import { defaultConfig } from './config/merge.ts'
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
    const { boundaries, id, project } = await theatre.stage('full')
    const contract = contractOf(project, { boundary: 'full', outputs })
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
  const { boundaries, id } = await theatre.stage('full')
  await boundaries.denied(id, { kind: 'host', host: 'a.test', port: 80 })
  await boundaries.narrow(id, { to: 'readwrite', by: 'person', why: '', way: 'narrowed' })
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
