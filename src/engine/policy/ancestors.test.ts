import { afterAll, beforeAll, expect, test } from 'vitest'
import { OrangeryError } from '../../shared/errors.ts'
import type { SandboxSpec } from '../../shared/spec.ts'
import { contractOf, Theatre } from './testing.ts'

let theatre: Theatre
beforeAll(async () => {
  theatre = await Theatre.open()
})
afterAll(() => theatre[Symbol.asyncDispose]())

const yes = { requests: null, by: 'person', message: '', scope: 'once' } as const
const asks = (hosts: readonly string[]) =>
  ({ to: 'network', hosts, source: 'user', by: 'person', why: 'it needs it' }) as const

const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'granted',
    (error: unknown) => (error instanceof OrangeryError ? error.code : String(error)),
  )

async function family(outputs: SandboxSpec['outputs']) {
  const set = await theatre.stage('network')
  const child = theatre.newId()
  theatre.addDispatch(child, set.project, 'readwrite', 'claude', set.id)
  set.contracts.set(set.id, contractOf(set.project, { boundary: 'network', outputs }))
  return { ...set, parent: set.id, child }
}

test('nobody grants a running child a host that its parent cannot reach', async () => {
  const { boundaries, child, live } = await family({ mode: 'restricted', allow: ['a.test'] })
  expect(await codeOf(boundaries.request(child, asks(['b.test:443'])))).toBe('boundary.beyond_parent')
  expect(await codeOf(boundaries.request(child, asks(['*.a.test'])))).toBe('boundary.beyond_parent')
  // The control: what the parent reaches itself, a person may give.
  await boundaries.request(child, asks(['a.test:443']))
  await boundaries.approve(child, yes)
  expect(live).toMatchObject({ level: 'network', hosts: ['a.test:443'] })
})

test('of a host that the broker denied a person hears, and says yes once the parent has it', async () => {
  const { boundaries, parent, child, live } = await family({ mode: 'restricted', allow: ['a.test'] })
  const denied = await boundaries.denied(child, { kind: 'host', host: 'b.test', port: 443 })
  expect(denied?.status).toBe('open')
  expect(await codeOf(boundaries.approve(child, yes))).toBe('boundary.beyond_parent')
  await boundaries.request(parent, asks(['b.test']))
  await boundaries.approve(parent, yes)
  await boundaries.approve(child, yes)
  expect(live).toMatchObject({ level: 'network', hosts: ['b.test:443'] })
})

test('a yes to all that a child asks for is held up by none that nobody can grant', async () => {
  const { boundaries, child, live } = await family({ mode: 'restricted', allow: ['a.test'] })
  await boundaries.denied(child, { kind: 'host', host: 'b.test', port: 443 })
  await boundaries.request(child, asks(['a.test']))
  expect((await boundaries.approve(child, yes)).map(({ hosts }) => hosts)).toEqual([['a.test']])
  expect(live.hosts).toEqual(['a.test'])
  expect(boundaries.show(child).requests.map(({ status }) => status)).toEqual(['open', 'approved'])
})

test('an earlier yes does not open to a child what its parent lacks', async () => {
  const { boundaries, user, parent, child } = await family({ mode: 'restricted', allow: ['a.test'] })
  await user({ sandboxApprovedEscalations: [{ agent: '*', level: 'network', hosts: ['b.test'] }] })
  const denial = { kind: 'host', host: 'b.test', port: 443 } as const
  expect((await boundaries.denied(child, denial))?.status).toBe('open')
  // The control: the same approval answers the parent itself.
  expect((await boundaries.denied(parent, denial))?.status).toBe('approved')
})

test('a child of a parent that reaches any public host may be given any', async () => {
  const { boundaries, child, live } = await family({ mode: 'open' })
  await boundaries.request(child, asks(['b.test']))
  await boundaries.approve(child, yes)
  expect(live.hosts).toEqual(['b.test'])
})

test('a parent whose contract cannot be read has no host to give', async () => {
  const { boundaries, contracts, child } = await family({ mode: 'open' })
  contracts.clear()
  expect(await codeOf(boundaries.request(child, asks(['b.test'])))).toBe('boundary.beyond_parent')
})

test('a child asks for no level that its parent lacks, and nobody can approve it either', async () => {
  const { boundaries, parent, child } = await family({ mode: 'open' })
  const full = { to: 'full', hosts: [], source: 'agent', by: 'claude', why: 'it wants it' } as const
  expect(await codeOf(boundaries.request(child, full))).toBe('boundary.beyond_parent')
  await boundaries.request(child, asks([]))
  await boundaries.narrow(parent, { to: 'readwrite', by: 'person', why: '', way: 'narrowed' })
  expect(await codeOf(boundaries.approve(child, yes))).toBe('boundary.beyond_parent')
})

test('once a parent was narrowed, nothing saved widens its children, be it to what the parent still has', async () => {
  const { boundaries, parent, project, user } = await family({ mode: 'open' })
  await user({ sandboxApprovedEscalations: [{ agent: '*', level: 'readwrite', hosts: [] }] })
  const writes = { ...asks([]), to: 'readwrite', source: 'agent' } as const
  const askOfAnother = async () => {
    const child = theatre.newId()
    theatre.addDispatch(child, project, 'readonly', 'claude', parent)
    return boundaries.request(child, writes)
  }
  expect(await askOfAnother()).toMatchObject({ status: 'approved', answer: { way: 'saved' } })
  await boundaries.narrow(parent, { to: 'readwrite', by: 'person', why: '', way: 'narrowed' })
  expect(await askOfAnother()).toMatchObject({ status: 'open' })
})
