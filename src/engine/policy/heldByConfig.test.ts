import { afterAll, beforeAll, expect, test } from 'vitest'
import type { BoundaryLevel } from '../../shared/boundary.ts'
import { agentCardSchema } from '../../shared/card.ts'
import type { SandboxSpec } from '../../shared/spec.ts'
import type { Contract } from '../base/contract.ts'
import { distrustProject } from './config/trusting.ts'
import { defaultConfig } from './config/merge.ts'
import { resolveContract } from './contract.ts'
import { networkNow } from './reach.ts'
import { Theatre } from './testing.ts'

let theatre: Theatre
beforeAll(async () => {
  theatre = await Theatre.open()
})
afterAll(() => theatre[Symbol.asyncDispose]())

const person = { requests: null, by: 'person', message: '', scope: 'once' } as const
const asked = { source: 'user', by: 'person', why: 'npm install' } as const

const buildAt = (build: BoundaryLevel, project: string, spec: SandboxSpec | null = null): Contract => {
  const config = defaultConfig()
  config.sandboxBoundaries.build = build
  const card = agentCardSchema.parse({ id: 'command', name: 'Command' })
  const rest = { legacySandbox: null, role: null, roots: [project], parent: null }
  return resolveContract({ ...rest, spec, card, phase: 'build', config })
}

/** A build that a trusted project lets begin at a level, as a dispatch would. */
async function trusted(level: BoundaryLevel, spec: SandboxSpec | null = null) {
  const stage = await theatre.stage(level)
  await stage.own({ sandboxBoundaries: { build: level } })
  await stage.trust()
  stage.contracts.set(stage.id, buildAt(level, stage.project, spec))
  await stage.boundaries.reconsider(stage.id)
  expect(stage.boundaries.show(stage.id)).toMatchObject({ level, history: [] })
  const { id, project, userConfigDir, contracts } = stage
  const distrust = () => distrustProject(userConfigDir, project)
  const network = () => networkNow(contracts.get(id)!, theatre.store.boundaries.read(id), defaultConfig())
  return { ...stage, distrust, network }
}

test('a level that a project gave goes with the trust in it, with every host that it opened, on record', async () => {
  for (const level of ['network', 'full'] as const) {
    const { boundaries, id, live, distrust, network } = await trusted(level)
    expect(network().mode).toBe(level === 'full' ? 'open' : 'none')
    await distrust()
    await boundaries.reconsider(id)
    expect(live.level).toBe('readwrite')
    expect(network().mode).toBe('none')
    const { history } = boundaries.show(id)
    const why = 'the config that is trusted now gives its phase readwrite, and nobody approved more'
    expect(history).toMatchObject([{ from: level, to: 'readwrite', by: 'config', way: 'config', why }])
    await boundaries.reconsider(id)
    expect(boundaries.show(id).history).toEqual(history)
  }
})

test('a level that a config gave goes down with the config, as far as that goes', async () => {
  const { boundaries, id, live, user, own } = await trusted('full')
  await own({})
  await user({ sandboxBoundaries: { build: 'network' } })
  await boundaries.reconsider(id)
  expect(live.level).toBe('network')
  await user({ sandboxBoundaries: { build: 'readonly' } })
  await boundaries.reconsider(id)
  expect(live.level).toBe('readonly')
  // Who lifts it again has said how the next begins.
  await user({ sandboxBoundaries: { build: 'full' } })
  await boundaries.reconsider(id)
  expect(live.level).toBe('readonly')
})

test('a level that a person approved stays when the config gives less, and so does a host', async () => {
  const { boundaries, id, live, distrust } = await trusted('network')
  await boundaries.request(id, { ...asked, to: 'full', hosts: [] })
  await boundaries.approve(id, person)
  await distrust()
  await boundaries.reconsider(id)
  expect(live.level).toBe('full')
  await boundaries.narrow(id, { to: 'network', by: 'person', why: '', way: 'narrowed' })
  await boundaries.reconsider(id)
  expect(live.level).toBe('network')

  const other = await trusted('network')
  await other.boundaries.request(other.id, { ...asked, to: 'network', hosts: ['registry.test:443'] })
  await other.boundaries.approve(other.id, person)
  await other.distrust()
  await other.boundaries.reconsider(other.id)
  expect(other.live).toMatchObject({ level: 'readwrite', hosts: ['registry.test:443'] })
  expect(other.network()).toMatchObject({ mode: 'restricted', allow: ['registry.test:443'] })
})

test('a yes that did not take keeps no level that the config no longer gives', async () => {
  const { boundaries, id, live, distrust, failNext } = await trusted('network')
  await boundaries.request(id, { ...asked, to: 'full', hosts: [] })
  failNext('before')
  await expect(boundaries.approve(id, person)).rejects.toThrow('EBUSY')
  await distrust()
  await boundaries.reconsider(id)
  expect(live.level).toBe('readwrite')
})

test('what who started it asked for stays, be it a boundary or hosts, whatever the config gives its phase', async () => {
  const specs: SandboxSpec[] = [{ boundary: 'network' }, { outputs: { allow: ['named.test'] } }]
  for (const spec of specs) {
    const { boundaries, id, distrust } = await trusted('network', spec)
    await distrust()
    await boundaries.reconsider(id)
    expect(boundaries.show(id)).toMatchObject({ level: 'network', history: [] })
  }
})

test('the children of one whose level went with the config go down with it', async () => {
  const { boundaries, id, project, distrust, contracts } = await trusted('full')
  const child = theatre.newId()
  theatre.addDispatch(child, project, 'full', 'claude', id)
  contracts.set(child, buildAt('full', project, { boundary: 'full' }))
  await distrust()
  await boundaries.reconsider(id)
  expect(boundaries.show(child).level).toBe('readwrite')
})

test('one that cannot be brought down at once is in the inbox, and is brought down later', async () => {
  const { boundaries, id, distrust, failNext, live } = await trusted('network')
  await distrust()
  failNext('before')
  await expect(boundaries.reconsider(id)).rejects.toThrow('EBUSY')
  const told = () => boundaries.inbox().filter(({ dispatch }) => dispatch === id)
  expect(told()).toMatchObject([{ source: 'config', why: expect.stringContaining('gives its phase') }])
  expect(await boundaries.beyondConfig(id)).toBe('readwrite')
  await boundaries.reconsider(id)
  expect(live.level).toBe('readwrite')
  expect(told()).toEqual([])
})
