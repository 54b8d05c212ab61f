import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hostsOverlap } from '../../shared/hosts.ts'
import { networkNow } from './reach.ts'
import { defaultConfig } from './config/merge.ts'
import { isTaken, stillTaken, takingBack } from './taken.ts'
import { contractOf, Theatre } from './testing.ts'

let theatre: Theatre
beforeAll(async () => {
  theatre = await Theatre.open()
})
afterAll(() => theatre[Symbol.asyncDispose]())

const yes = { requests: null, by: 'person', message: '', scope: 'once' } as const
const take = (...hosts: string[]) => ({ hosts, by: 'person', why: '', way: 'narrowed' }) as const
const denial = (host: string, port: number) => ({ kind: 'host', host, port }) as const

test('patterns overlap where some host and port is meant by both', () => {
  for (const [a, b] of [
    ['a.test', 'a.test:1'],
    ['*.test:1', 'a.test'],
    ['*.b.test', '*.test'],
  ] as const) {
    expect([hostsOverlap(a, b), hostsOverlap(b, a)], `${a} ${b}`).toEqual([true, true])
  }
  for (const [a, b] of [
    ['a.test:1', 'a.test:2'],
    ['*.a.test', 'a.test'],
    ['*.a.test', '*.b.test'],
    ['a.test', 'not a host'],
  ] as const) {
    expect([hostsOverlap(a, b), hostsOverlap(b, a)], `${a} ${b}`).toEqual([false, false])
  }
})

test('of what came back as a whole a part can be taken, and the rest stays', () => {
  const back = { taken: ['a.test'], returned: ['a.test'] }
  const now = takingBack(back, ['a.test:80'])
  expect([80, 443].map((port) => isTaken(now, `a.test:${port}`))).toEqual([true, false])
  expect(isTaken(takingBack(back, ['a.test']), 'a.test:443')).toBe(true)
  expect(isTaken({ taken: ['a.b.test'], returned: [] }, '*.b.test')).toBe(true)
})

describe('a person takes a host back', () => {
  test('and leaves the level and the other hosts; a yes gives again what was asked, and no more', async () => {
    const { boundaries, id, live, project } = await theatre.stage('network')
    const contract = contractOf(project, { boundary: 'network', outputs: { mode: 'open' } })
    await boundaries.request(id, { ...asks, hosts: ['x.test:1', 'y.test:1'] })
    await boundaries.approve(id, yes)
    const grant = await boundaries.narrow(id, { ...take('X.test.', '*.z.test'), why: 'enough' })
    expect(grant).toMatchObject({ way: 'narrowed', why: '*.z.test, x.test taken back: enough' })
    expect(live).toMatchObject({ level: 'network', hosts: ['y.test:1'], taken: ['*.z.test', 'x.test'] })
    expect(networkNow(contract, theatre.store.boundaries.read(id), defaultConfig())).toMatchObject({
      mode: 'open',
      taken: ['*.z.test', 'x.test'],
    })
    await boundaries.denied(id, denial('x.test', 1))
    expect(boundaries.show(id).requests.at(-1)).toMatchObject({ status: 'open', hosts: ['x.test:1'] })
    await boundaries.approve(id, yes)
    expect([isTaken(live, 'x.test:1'), isTaken(live, 'x.test:2'), isTaken(live, 'a.z.test')]).toEqual([
      false,
      true,
      true,
    ])
    expect(await boundaries.request(id, { ...asks, hosts: ['x.test:1'] })).toMatchObject({
      answer: { message: 'It has this already.' },
    })
    // All that was granted goes, and so does what was given again.
    await boundaries.narrow(id, { to: 'network', by: 'person', why: '', way: 'narrowed' })
    expect([live.hosts, isTaken(live, 'x.test:1')]).toEqual([[], true])
  })

  test('a host that a wider grant still names is not said to be there already', async () => {
    const { boundaries, id, live } = await theatre.stage('network')
    await boundaries.request(id, { ...asks, hosts: ['*.w.test'] })
    await boundaries.approve(id, yes)
    await boundaries.narrow(id, take('a.w.test'))
    expect(live.hosts).toEqual(['*.w.test'])
    expect((await boundaries.request(id, { ...asks, hosts: ['*.w.test'] })).status).toBe('open')
  })

  test('and what is saved does not bring it back, nor does a level that opens every host', async () => {
    const { boundaries, id, live, user } = await theatre.stage('network')
    await user({ sandboxApprovedEscalations: [{ agent: '*', level: 'full', hosts: [] }] })
    await boundaries.narrow(id, take('a.test'))
    expect((await boundaries.denied(id, denial('a.test', 1)))?.status).toBe('open')
    await boundaries.request(id, { ...asks, to: 'full', hosts: [] })
    const [, wide] = boundaries.show(id).requests
    await boundaries.approve(id, { ...yes, requests: [wide?.id ?? ''] })
    expect(live.level).toBe('full')
    expect(isTaken(live, 'a.test:1')).toBe(true)
  })

  test('a take that fails is undone, with what was denied because of it; one that was overtaken stays', async () => {
    const { boundaries, id, failNext } = await theatre.stage('network')
    failNext('before')
    await expect(boundaries.narrow(id, take('a.test'))).rejects.toThrow('EBUSY')
    expect(boundaries.show(id)).toMatchObject({ taken: [], history: [{ taken: ['a.test'] }, { taken: [] }] })
    failNext('overtaken')
    await expect(boundaries.narrow(id, take('b.test'))).rejects.toThrow('EBUSY')
    expect(boundaries.show(id)).toMatchObject({ level: 'readonly', taken: ['b.test'] })
  })

  test('what is no host is refused, before any child is asked', async () => {
    const { boundaries, id, child } = await family()
    await expect(boundaries.narrow(id, take('http://a.test/'))).rejects.toThrow('not a host')
    expect(boundaries.show(child).history).toEqual([])
  })

  test('from its children, too: those that run, those that start later, and nobody gives it to them first', async () => {
    const { boundaries, id, child, contracts, project, live } = await family()
    await boundaries.narrow(id, take('a.test'))
    expect(boundaries.show(child).taken).toEqual(['a.test'])
    const later = theatre.newId()
    theatre.addDispatch(later, project, 'network', 'claude', id)
    expect(boundaries.inherit(later)).not.toBeNull()
    expect(boundaries.inherit(later)).toBeNull()
    expect(boundaries.show(later)).toMatchObject({ level: 'network', taken: ['a.test'] })
    expect(boundaries.show(later).history).toMatchObject([
      { way: 'narrowed', why: `a.test taken back from its parent ${id}` },
    ])
    for (const each of [child, later]) {
      await boundaries.denied(each, denial('a.test', 443))
      await expect(boundaries.approve(each, yes)).rejects.toThrow('its parent may not reach it itself')
    }
    expect(contracts.get(id)?.outputs.mode).toBe('open')
    await boundaries.denied(id, denial('a.test', 443))
    await boundaries.approve(id, yes)
    for (const each of [child, later]) {
      await boundaries.approve(each, yes)
      expect(isTaken(live, 'a.test:443')).toBe(false)
      expect(stillTaken(live)).toEqual(['a.test'])
    }
  })
})

const asks = { to: 'network', source: 'user', by: 'person', why: 'it needs it' } as const

async function family() {
  const set = await theatre.stage('network')
  const child = theatre.newId()
  theatre.addDispatch(child, set.project, 'network', 'claude', set.id)
  set.contracts.set(set.id, contractOf(set.project, { boundary: 'network', outputs: { mode: 'open' } }))
  return { ...set, child }
}
