import { afterAll, beforeAll, expect, test } from 'vitest'
import { agentCardSchema } from '../../shared/card.ts'
import type { BoundaryLevel, Phase } from '../../shared/boundary.ts'
import { networkAt } from './capabilities.ts'
import { defaultConfig } from './config/merge.ts'
import { resolveContract } from './contract.ts'
import { Theatre } from './testing.ts'

let theatre: Theatre
beforeAll(async () => {
  theatre = await Theatre.open()
})
afterAll(() => theatre[Symbol.asyncDispose]())

const host = 'registry.test:443'
const asked = { source: 'agent', by: 'agent', why: 'npm install' } as const
const person = { requests: null, by: 'person', message: '', scope: 'once' } as const

test('below a maximum of network no host is opened, at whichever level it is wished and whoever says yes', async () => {
  for (const level of ['readonly', 'readwrite'] as const) {
    const { boundaries, id, live, user } = await theatre.stage(level)
    const sandboxApprovedEscalations = [{ agent: '*', level, hosts: [host] }]
    const open = await boundaries.request(id, { ...asked, to: level, hosts: ['other.test'] })
    expect(open.status).toBe('open')
    await user({ sandboxMaximumBoundary: 'readwrite', sandboxApprovedEscalations })
    expect(await boundaries.request(id, { ...asked, to: level, hosts: [host] })).toMatchObject({
      status: 'denied',
      answer: { way: 'policy', message: 'The policy allows readwrite at most, and no host.' },
    })
    await expect(boundaries.approve(id, person)).rejects.toMatchObject({ code: 'policy.boundary_too_wide' })
    await boundaries.reconsider(id)
    expect(live).toMatchObject({ level, hosts: [] })
    // The control: the same wish, once the maximum leaves room for it.
    await user({ sandboxMaximumBoundary: 'network', sandboxApprovedEscalations })
    await boundaries.request(id, { ...asked, to: level, hosts: [host] })
    expect(live).toMatchObject({ level, hosts: [host] })
  }
})

test('below a maximum of network neither a contract nor a level of the config opens a host, but what the card needs stays', () => {
  const sandboxRequirements = { hosts: ['model.test:443'] }
  const card = agentCardSchema.parse({ id: 'claude', name: 'Claude', sandboxRequirements })
  const outputs = { pins: { 'h.test:8080': '127.0.0.1:1' }, allow: ['other.test'] }
  const reached = (maximum: BoundaryLevel, phase: Phase | null, later = maximum) => {
    const config = { ...defaultConfig(), sandboxMaximumBoundary: maximum }
    config.sandboxLevels.readonly.hosts = config.sandboxLevels.readwrite.hosts = ['level.test']
    const input = { legacySandbox: null, card, phase, role: null, roots: ['/projects/a'], parent: null }
    const contract = resolveContract({ spec: { outputs }, ...input, config })
    const now = { ...config, sandboxMaximumBoundary: later }
    const { allow, pins } = networkAt(contract, contract.boundary, ['granted.test'], now)
    return [...allow, ...Object.values(pins)].sort()
  }
  for (const phase of ['plan', 'build', null] as const) {
    for (const maximum of ['readonly', 'readwrite'] as const) {
      expect(reached(maximum, phase)).toEqual(['model.test:443'])
      // Lowered while it runs.
      expect(reached('full', phase, maximum)).toEqual(['model.test:443'])
    }
    // The control.
    expect(reached('network', phase)).toEqual(expect.arrayContaining(['127.0.0.1:1', 'h.test:8080']))
  }
})

test('a project’s own maximum closes hosts, too', async () => {
  const { boundaries, id, user, own } = await theatre.stage('readwrite')
  await user({ sandboxApprovedEscalations: [{ agent: '*', level: 'readwrite', hosts: [host] }] })
  await own({ sandboxMaximumBoundary: 'readwrite' })
  expect((await boundaries.request(id, { ...asked, to: 'readwrite', hosts: [host] })).status).toBe('denied')
})

test('a maximum that is lowered below network takes granted hosts back, also where the level may stay', async () => {
  const { boundaries, id, live, user } = await theatre.stage('readonly')
  await boundaries.request(id, { ...asked, to: 'readonly', hosts: [host] })
  await boundaries.approve(id, person)
  expect(live).toMatchObject({ level: 'readonly', hosts: [host] })
  await user({ sandboxMaximumBoundary: 'readwrite' })
  await boundaries.reconsider(id)
  expect(live).toMatchObject({ level: 'readonly', hosts: [] })
  expect(boundaries.show(id).history.at(-1)).toMatchObject({ by: 'config', way: 'config', hosts: [] })
})

test('what the maximum denied is denied no longer than the maximum says so', async () => {
  const { boundaries, id, user } = await theatre.stage('readwrite')
  const wish = { ...asked, to: 'network', hosts: [host] } as const
  await user({ sandboxMaximumBoundary: 'readwrite' })
  expect((await boundaries.request(id, wish)).status).toBe('denied')
  await user({})
  expect((await boundaries.request(id, wish)).status).toBe('open')
  await boundaries.deny(id, { requests: null, by: 'person', message: 'no' })
  expect((await boundaries.request(id, wish)).status).toBe('denied')
})

test('a host that was approved at one level is open at the others, and no level comes with it', async () => {
  const { boundaries, id, project, make } = await theatre.stage('readonly')
  const write = { kind: 'write', path: '/p/x' } as const
  const lacked = { kind: 'host', host: 'registry.test', port: 443 } as const
  await boundaries.denied(id, write)
  await boundaries.denied(id, lacked)
  await boundaries.approve(id, { ...person, scope: 'project' })

  for (const order of [
    [write, lacked],
    [lacked, write],
  ]) {
    const next = theatre.newId()
    theatre.addDispatch(next, project, 'readonly', 'claude', null)
    const again = make()
    for (const denial of order)
      expect(await again.denied(next, denial)).toMatchObject({ status: 'approved', answer: { way: 'saved' } })
    expect(again.show(next)).toMatchObject({ level: 'readwrite', hosts: [host] })
    const known = await again.request(next, { ...asked, to: 'network', hosts: [host] })
    expect(known).toMatchObject({ status: 'approved', answer: { way: 'config' } })
    // Who asks for the network without a name asks for more.
    expect((await again.request(next, { ...asked, to: 'network', hosts: [] })).status).toBe('open')
  }
})

test('who approves a dispatch answers all its open requests, also one for full', async () => {
  const { boundaries, id, live } = await theatre.stage('readwrite')
  await boundaries.request(id, { ...asked, to: 'network', hosts: [host] })
  await boundaries.request(id, { ...asked, to: 'full', hosts: [] })
  expect(await boundaries.approve(id, person)).toMatchObject([{ to: 'network' }, { to: 'full' }])
  expect(live).toMatchObject({ level: 'full', hosts: [host] })
  expect(boundaries.show(id).requests.map(({ status }) => status)).toEqual(['approved', 'approved'])
})

test('an agent that cannot be brought down to a lowered maximum is in the inbox, once, until it is', async () => {
  const { boundaries, id, live, user, failNext } = await theatre.stage('readwrite')
  await user({ sandboxMaximumBoundary: 'readonly' })
  for (const _ of [1, 2]) {
    failNext('before')
    await expect(boundaries.reconsider(id)).rejects.toThrow('EBUSY')
  }
  const told = () => boundaries.inbox().filter(({ dispatch }) => dispatch === id)
  expect(told()).toMatchObject([{ source: 'config', to: 'readwrite', why: expect.stringContaining('EBUSY') }])
  await expect(boundaries.approve(id, person)).rejects.toMatchObject({ code: 'policy.boundary_too_wide' })
  expect(await boundaries.beyondConfig(id)).toBe('readonly')
  await boundaries.reconsider(id)
  expect(live.level).toBe('readonly')
  expect(told()).toEqual([])
  expect(await boundaries.beyondConfig(id)).toBeNull()
})

test('the notice that an agent stays beyond the maximum is nobody’s to answer, and holds up no other answer', async () => {
  const { boundaries, id, user, failNext, events } = await theatre.stage('readwrite')
  await boundaries.request(id, { ...asked, to: 'network', hosts: [host] })
  await user({ sandboxMaximumBoundary: 'readonly' })
  failNext('before')
  await expect(boundaries.reconsider(id)).rejects.toThrow('EBUSY')
  const told = () => boundaries.inbox().filter(({ dispatch }) => dispatch === id)
  const [, notice] = told()
  expect(notice).toMatchObject({ source: 'config' })
  const deny = (requests: readonly string[] | null) =>
    boundaries.deny(id, { requests, by: 'person', message: 'no' })
  await expect(deny([notice!.id])).rejects.toMatchObject({ kind: 'refused' })
  expect(await deny(null)).toMatchObject([{ to: 'network', status: 'denied' }])
  expect(events.filter(({ type }) => type === 'BoundaryDenied')).toHaveLength(1)
  await expect(deny(null)).rejects.toMatchObject({ kind: 'refused' })
  await expect(boundaries.approve(id, { ...person, requests: [notice!.id] })).rejects.toMatchObject({
    kind: 'refused',
  })
  expect(told()).toEqual([notice])
})
