import { link, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { contractOf, Theatre } from '../testing.ts'
import { heldProjects, loadConfig } from './load.ts'

let theatre: Theatre
beforeAll(async () => {
  theatre = await Theatre.open()
})
afterAll(() => theatre[Symbol.asyncDispose]())

const wish = { to: 'network', hosts: ['a.test:1'], source: 'agent', by: 'agent', why: 'test' } as const

test('what narrowed an agent on the real files at its start holds on, though it takes the file away, empties or shadows it', async () => {
  const set = await theatre.stage('readwrite')
  const { id, boundaries, contracts, project, userConfigDir, user, own } = set
  const approvals = [{ agent: '*', level: 'network' as const, hosts: ['a.test'] }]
  await user({ sandboxApprovedEscalations: approvals })
  const narrowing = { sandboxMaximumBoundary: 'readwrite', agentForbiddenTools: ['Bash'] } as const
  await own({ ...narrowing, agentForbiddenTools: [...narrowing.agentForbiddenTools] })
  const held = await heldProjects({ userConfigDir, roots: [project] })
  contracts.set(id, { ...contractOf(project, { boundary: 'readwrite' }), projects: held })

  const file = join(project, '.orangery.json')
  const attacks: (() => Promise<unknown>)[] = [
    () => writeFile(file, '{}'),
    () => rm(file),
    () => writeFile(file, '{ "sandboxMaximumBoundary": '),
  ]
  for (const attack of attacks) {
    await attack()
    await boundaries.reconsider(id).catch(() => {})
    const answer = await boundaries.request(id, wish).catch(() => null)
    expect(answer?.status ?? 'denied').toBe('denied')
    expect(set.live).toMatchObject({ level: 'readwrite', hosts: [] })
  }
  await rm(file)
  const config = await loadConfig({ userConfigDir, roots: [project], held })
  expect(config.agentForbiddenTools).toContain('Bash')
  expect(config.sandboxApprovedEscalations).toHaveLength(1)
  // The control: nobody is held to it who began afterwards.
  contracts.set(id, contractOf(project, { boundary: 'readwrite' }))
  expect((await boundaries.request(id, wish)).status).toBe('approved')
})

test('a nearer file in a folder of its own does not lift what the one above it said', async () => {
  const { userConfigDir, project, own } = await theatre.stage()
  const root = join(project, 'packages')
  await mkdir(join(project, '.git'))
  await mkdir(root)
  await own({ sandboxMaximumBoundary: 'readonly' })
  const held = await heldProjects({ userConfigDir, roots: [root] })
  await mkdir(join(root, '.git'))
  await writeFile(join(root, '.orangery.json'), '{}')
  expect((await loadConfig({ userConfigDir, roots: [root] })).sandboxMaximumBoundary).toBe('full')
  expect((await loadConfig({ userConfigDir, roots: [root], held })).sandboxMaximumBoundary).toBe('readonly')
})

test('what a held file approved counts only while the file says so, and what it trusted stays as wide as it was', async () => {
  const { userConfigDir, project, own, trust } = await theatre.stage()
  const sandboxLevels = { network: { hosts: ['a.test'] } }
  await own({ sandboxLevels, sandboxApprovedEscalations: [{ agent: '*', level: 'full', hosts: [] }] })
  await trust()
  const held = await heldProjects({ userConfigDir, roots: [project] })
  await own({ sandboxLevels: { network: { hosts: ['a.test', 'b.test'] } } })
  await trust()
  const config = await loadConfig({ userConfigDir, roots: [project], held })
  expect(config.sandboxApprovedEscalations).toEqual([])
  expect(config.sandboxLevels.network.hosts).toEqual(['a.test'])
})

test('a config that came to lie in what an agent writes directly widens it no more', async () => {
  const { id, boundaries, contracts, project, userConfigDir, user } = await theatre.stage('readwrite')
  contracts.set(id, contractOf(project, { boundary: 'readwrite', changeset: 'none' }))
  await user({ sandboxApprovedEscalations: [{ agent: '*', level: 'network', hosts: ['a.test'] }] })
  const file = join(userConfigDir, 'config.json')
  await rename(file, join(project, 'mine.json'))
  await symlink(join(project, 'mine.json'), file)
  await expect(boundaries.request(id, wish)).rejects.toMatchObject({ code: 'config.in_reach' })
  expect(boundaries.show(id).level).toBe('readwrite')
  // The control: one that writes a changeset changes nothing there.
  contracts.set(id, contractOf(project, { boundary: 'readwrite' }))
  expect((await boundaries.request(id, wish)).status).toBe('approved')
})

test('a second name of the user’s config in what an agent writes directly is seen while it runs', async () => {
  const { id, boundaries, contracts, project, userConfigDir, user } = await theatre.stage('readwrite')
  contracts.set(id, contractOf(project, { boundary: 'readwrite', changeset: 'none' }))
  await user({ sandboxApprovedEscalations: [{ agent: '*', level: 'network', hosts: ['a.test'] }] })
  await mkdir(join(project, 'deep'))
  await link(join(userConfigDir, 'config.json'), join(project, 'deep/mine.json'))
  await expect(boundaries.request(id, wish)).rejects.toMatchObject({ code: 'config.in_reach' })
  await rm(join(project, 'deep/mine.json'))
  expect((await boundaries.request(id, wish)).status).toBe('approved')
})

test('a file of the parent’s project that changes later narrows a child in a nested repository too, and gives it nothing', async () => {
  const set = await theatre.stage('network')
  const { id, boundaries, contracts, project, userConfigDir, own, user, trust, live } = set
  await user({ sandboxApprovedEscalations: [{ agent: '*', level: 'network', hosts: ['a.test'] }] })
  const root = join(project, 'nested')
  await mkdir(join(project, '.git'))
  await mkdir(join(root, '.git'), { recursive: true })
  contracts.set(id, contractOf(project, { boundary: 'network', outputs: { mode: 'open' } }))
  const child = theatre.newId()
  theatre.addDispatch(child, root, 'readwrite', 'claude', id)
  contracts.set(child, { ...contractOf(root, { boundary: 'readwrite' }), around: [project] })

  await own({ sandboxLevels: { network: { deniedHosts: ['a.test'] } } })
  expect((await boundaries.request(child, wish)).status).toBe('denied')
  await own({ sandboxApprovedEscalations: [{ agent: '*', level: 'network', hosts: ['b.test'] }] })
  await trust()
  const other = { ...wish, hosts: ['b.test:1'] }
  expect((await boundaries.request(child, other)).status).toBe('open')
  // The control: what nothing forbids, the user's own approval gives it.
  expect((await boundaries.request(child, { ...wish, why: 'again' })).status).toBe('approved')

  // Also where its parent has no reason to come down itself.
  await boundaries.narrow(child, { to: 'readwrite', by: 'person', why: '', way: 'narrowed' })
  await own({ sandboxMaximumBoundary: 'readonly' })
  await boundaries.reconsider(child)
  expect(boundaries.show(child).level).toBe('readonly')
  expect(live.level).toBe('readonly')
  const places = { userConfigDir, roots: [root], around: [project, root] }
  expect((await loadConfig(places)).projects.map((known) => known.root)).toEqual([root])
})
