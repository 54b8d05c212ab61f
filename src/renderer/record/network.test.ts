import { expect, test } from 'vitest'
import type { LoggedEvent } from '../../shared/events.ts'
import { parseHostPattern } from '../../shared/hosts.ts'
import { canBeAllowed, canBeTaken, networkOf } from './network.ts'

const decided = (host: string, allowed: boolean, port: number | null = 443): LoggedEvent => ({
  seq: 1,
  at: '',
  prev: '',
  hash: '',
  event: { type: 'EgressDecided', host, port, allowed, why: allowed ? 'allowed' : 'not in the list' },
})

test('while it runs the log tells who was reached and who was not, denied hosts first', () => {
  const events = [decided('a.test', true), decided('b.test', false), decided('b.test', false)]
  expect(networkOf(events, null)).toEqual([
    { host: 'b.test:443', allowed: 0, denied: 2, why: 'not in the list', isOpen: false, bytes: null },
    { host: 'a.test:443', allowed: 1, denied: 0, why: null, isOpen: true, bytes: null },
  ])
})

test('when it has ended the record counts, and what it does not name stays as logged', () => {
  const effective = {
    network: { allowed: [{ host: 'a.test:443', connections: 7, bytes: 90 }], denied: [] },
  }
  const [a, b] = networkOf([decided('a.test', true), decided('b.test', false)], effective).toReversed()
  expect(a).toMatchObject({ host: 'a.test:443', allowed: 7, bytes: 90 })
  expect(b).toMatchObject({ host: 'b.test:443', denied: 1 })
})

test('an allowed host that nobody answered at stays in the list when it has ended, and says so', () => {
  const allowed = [{ host: 'a.test', connections: 0, bytes: 0, unreachable: 3 }]
  const [only, ...others] = networkOf([decided('a.test', true)], { network: { allowed, denied: [] } })
  expect(only).toMatchObject({ host: 'a.test', allowed: 0, unreachable: 3, bytes: 0 })
  expect(others).toEqual([])
})

test('a record nobody can read hides nothing that was logged', () => {
  expect(networkOf([decided('a.test', false)], { network: 'damaged' })).toHaveLength(1)
})

test('once it has ended a host stands in the list once, whatever ports were tried; a refused name has none', () => {
  const log = [decided('a.test', true), decided('b.test', false), decided('c.test', false, null)]
  expect(networkOf(log, null).map(({ host }) => host)).toEqual(['b.test:443', 'c.test', 'a.test:443'])
  const ended = {
    network: {
      allowed: [{ host: 'a.test', connections: 1, bytes: 9 }],
      denied: ['b.test', 'c.test'].map((host) => ({ host, connections: 1, why: 'not in the list' })),
    },
  }
  const hosts = networkOf(log, ended).map(({ host }) => host)
  expect(hosts.toSorted()).toEqual(['a.test', 'b.test', 'c.test'])
})

test('while it runs the last count says how much went over', () => {
  const carried = (bytes: number) => ({
    ...decided('a.test', true),
    event: { type: 'EgressCarried' as const, hosts: [{ host: 'a.test', connections: 1, bytes }] },
  })
  const log = [decided('a.test', true), decided('b.test', true), carried(5), carried(90)]
  expect(networkOf(log, null).map(({ host, bytes }) => [host, bytes])).toEqual([
    ['a.test:443', 90],
    ['b.test:443', null],
  ])
})

test('an IPv6 host stands in the list as a rule names it, so that taking it back or allowing it means that host', () => {
  const six = '2a00:5::5'
  const carried: LoggedEvent = {
    ...decided(six, true),
    event: { type: 'EgressCarried', hosts: [{ host: six, connections: 1, bytes: 9 }] },
  }
  const [reached, ...others] = networkOf([decided(six, true, 80), carried], null)
  expect(others).toEqual([])
  expect(reached).toMatchObject({ host: '[2a00:5::5]:80', bytes: 9 })
  expect(parseHostPattern(reached?.host ?? '')).toEqual({ host: '[2a00:5::5]', port: 80 })
  const ended = { network: { allowed: [{ host: six, connections: 1, bytes: 9 }], denied: [] } }
  expect(networkOf([decided(six, true, 80)], ended)).toMatchObject([{ host: '[2a00:5::5]', bytes: 9 }])
})

test('attempts that were told together count one by one', () => {
  const often = decided('b.test', false)
  const events = [often, { ...often, event: { ...often.event, count: 9 } as typeof often.event }]
  expect(networkOf(events, null)).toMatchObject([{ host: 'b.test:443', denied: 10 }])
})

test('what is no host, or forbidden by a rule, is not offered to be allowed', () => {
  const reached = { allowed: 0, denied: 1, why: 'not in the list', isOpen: false, bytes: null }
  expect(canBeAllowed({ ...reached, host: 'a.test:443' })).toBe(true)
  expect(canBeAllowed({ ...reached, host: '(an address)' })).toBe(false)
  expect(canBeAllowed({ ...reached, host: '(not a host)' })).toBe(false)
  expect(canBeAllowed({ ...reached, host: 'a.test', why: 'denied by the rule a.test' })).toBe(false)
  expect(
    canBeAllowed({ ...reached, host: '127.0.0.1:80', why: 'loopback address, which only a pin opens' }),
  ).toBe(false)
})

test('a host that was granted since is not offered to be allowed again', () => {
  const granted: LoggedEvent['event'] = {
    type: 'BoundaryEscalated',
    from: null,
    to: 'network',
    by: 'ada',
    why: '',
    hosts: ['b.test'],
  }
  const denied = decided('b.test', false)
  const offered = (...events: LoggedEvent[]) => networkOf(events, null).filter(canBeAllowed).length
  expect(offered(denied)).toBe(1)
  expect(offered(denied, { ...denied, event: granted })).toBe(0)
  expect(offered(denied, { ...denied, event: granted }, denied)).toBe(1)
})

test('a host is offered to be taken back while it gets through', () => {
  const takable = (...events: LoggedEvent[]) =>
    networkOf(events, null)
      .filter(canBeTaken)
      .map(({ host }) => host)
  const reached = decided('a.test', true)
  expect(takable(reached, decided('b.test', false))).toEqual(['a.test:443'])
  expect(takable(reached, decided('a.test', false))).toEqual([])
  expect(takable(reached, decided('a.test', false), reached)).toEqual(['a.test:443'])
})
