import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { contractOf, Theatre } from './testing.ts'

let theatre: Theatre
beforeAll(async () => {
  theatre = await Theatre.open()
})
afterAll(() => theatre[Symbol.asyncDispose]())

const asked = { to: 'network', source: 'agent', by: 'agent', why: 'npm install' } as const
const yes = { requests: null, by: 'person', message: '', scope: 'once' } as const

test('a host that the contract or the config denies is refused at once, with the reason, and nobody is asked', async () => {
  for (const whose of ['contract', 'config'] as const) {
    const { boundaries, id, project, contracts, events, user } = await theatre.stage('readwrite')
    if (whose === 'contract')
      contracts.set(id, contractOf(project, { boundary: 'readwrite', outputs: { deny: ['*.evil.test'] } }))
    else await user({ sandboxLevels: { network: { deniedHosts: ['*.evil.test'] } } })
    const message = `The policy denies a.evil.test:443: ${whose === 'contract' ? 'outputs.deny of its contract' : 'deniedHosts of the config'}.`
    expect(await boundaries.request(id, { ...asked, hosts: ['a.evil.test:443'] })).toMatchObject({
      status: 'denied',
      answer: { way: 'policy', message },
    })
    expect(events.at(-1)).toMatchObject({ type: 'BoundaryDenied', why: message })
    expect(boundaries.inbox().filter(({ dispatch }) => dispatch === id)).toEqual([])
    // The control.
    const other = await boundaries.request(id, { ...asked, hosts: ['a.test:443'] })
    expect(other.status).toBe('open')
    await boundaries.approve(id, yes)
    expect(boundaries.show(id).hosts).toEqual(['a.test:443'])
  }
})

test('a host that was denied after it was asked for, or granted, is refused with the reason and holds up no other', async () => {
  const { boundaries, id, user } = await theatre.stage('network')
  await boundaries.request(id, { ...asked, hosts: ['old.test:443'] })
  await boundaries.approve(id, yes)
  const { id: denied } = await boundaries.request(id, { ...asked, hosts: ['a.test:443'] })
  await boundaries.request(id, { ...asked, hosts: ['b.test:443'] })
  await user({
    sandboxLevels: { readonly: { deniedHosts: ['a.test', 'old.test'] } },
    sandboxApprovedEscalations: [{ agent: '*', level: 'network', hosts: ['a.test'] }],
  })
  await boundaries.reconsider(id)
  await expect(boundaries.approve(id, { ...yes, requests: [denied] })).rejects.toMatchObject({
    kind: 'refused',
    code: 'policy.host_denied',
    message: expect.stringContaining('deniedHosts of the config') as string,
  })
  await boundaries.approve(id, yes)
  expect(boundaries.show(id).hosts).toEqual(['old.test:443', 'b.test:443'])
  expect((await boundaries.request(id, { ...asked, hosts: ['old.test:443'] })).status).toBe('denied')
})

test('while the config cannot be read a denial is in the inbox all the same, and nothing answers it until it can', async () => {
  const { boundaries, id, userConfigDir, user, live } = await theatre.stage('readwrite')
  await boundaries.request(id, { ...asked, hosts: ['a.test:443'] })
  await boundaries.approve(id, { ...yes, scope: 'task' })
  await boundaries.narrow(id, { to: 'readwrite', by: 'config', why: '', way: 'config' })
  await writeFile(join(userConfigDir, 'config.json'), '{ "sandboxMaximumBoundary": ')
  for (const host of ['a.test', 'b.test'])
    expect(await boundaries.denied(id, { kind: 'host', host, port: 443 })).toMatchObject({ status: 'open' })
  expect((await boundaries.request(id, { ...asked, to: 'full', hosts: [] })).status).toBe('open')
  expect(boundaries.inbox().filter(({ dispatch }) => dispatch === id)).toHaveLength(3)
  await expect(boundaries.approve(id, yes)).rejects.toMatchObject({ kind: 'input' })
  // Who asks himself is told at once what is wrong.
  const own = { ...asked, source: 'user', hosts: ['c.test:443'] } as const
  await expect(boundaries.request(id, own)).rejects.toMatchObject({ kind: 'input' })
  expect(live).toMatchObject({ level: 'readwrite', hosts: [] })
  expect(boundaries.show(id)).toMatchObject({ level: 'readwrite', hosts: [] })

  // The control: once it can be read, what was said earlier counts, and a person decides on the rest.
  await user({ sandboxMaximumBoundary: 'network' })
  await boundaries.reconsider(id)
  expect(live).toMatchObject({ level: 'network', hosts: ['a.test:443'] })
  await boundaries.approve(id, yes)
  expect(boundaries.show(id)).toMatchObject({ level: 'network', hosts: ['a.test:443', 'b.test:443'] })
})

test.each(['plain-copy', 'direct'] as const)(
  'files of a workspace that cannot change (%s) are refused at once, with the reason, whatever was saved',
  async (driver) => {
    const { boundaries, id, project, contracts, user } = await theatre.stage('readonly')
    contracts.set(id, { ...contractOf(project, { boundary: 'readonly' }), driver })
    await user({ sandboxApprovedEscalations: [{ agent: '*', level: 'readwrite', hosts: [] }] })
    const denial = (path: string) => boundaries.denied(id, { kind: 'write', path, to: 'readwrite' })
    const first = await denial('/a')
    expect(first).toMatchObject({
      status: 'denied',
      answer: {
        way: 'policy',
        message: expect.stringContaining('cannot change while the agent runs') as string,
      },
    })
    // The same again is the same request, counted.
    expect(await denial('/b')).toMatchObject({ id: first?.id, count: 2 })
    expect(boundaries.show(id)).toMatchObject({ level: 'readonly', history: [] })
    expect(boundaries.inbox().filter(({ dispatch }) => dispatch === id)).toEqual([])
    // Who asks for a host with them is told how to have the host without.
    expect(await boundaries.request(id, { ...asked, to: 'network', hosts: ['a.test:443'] })).toMatchObject({
      status: 'denied',
      answer: {
        message: expect.stringContaining('for the host alone ask for readonly and name it') as string,
      },
    })
    // The control: what leaves the files as they are is a person's to give.
    const host = await boundaries.request(id, { ...asked, to: 'readonly', hosts: ['a.test:443'] })
    expect(host.status).toBe('open')
    contracts.set(id, { ...contractOf(project, { boundary: 'readonly' }), driver: 'kernel-overlay' })
    expect(await denial('/c')).toMatchObject({ status: 'approved', answer: { way: 'saved' } })
  },
)
