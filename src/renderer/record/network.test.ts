import { expect, test } from 'vitest'
import type { LoggedEvent } from '../../shared/events.ts'
import { networkOf } from './network.ts'

const decided = (host: string, allowed: boolean): LoggedEvent => ({
  seq: 1,
  at: '',
  prev: '',
  hash: '',
  event: { type: 'EgressDecided', host, port: 443, allowed, why: allowed ? 'allowed' : 'not in the list' },
})

test('while it runs the log tells who was reached and who was not, denied hosts first', () => {
  const events = [decided('a.test', true), decided('b.test', false), decided('b.test', false)]
  expect(networkOf(events, null)).toEqual([
    { host: 'b.test:443', allowed: 0, denied: 2, why: 'not in the list', bytes: null },
    { host: 'a.test:443', allowed: 1, denied: 0, why: null, bytes: null },
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

test('a record nobody can read hides nothing that was logged', () => {
  expect(networkOf([decided('a.test', false)], { network: 'damaged' })).toHaveLength(1)
})
