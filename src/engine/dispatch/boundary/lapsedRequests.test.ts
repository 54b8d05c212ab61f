import { expect, test } from 'vitest'
import type { BoundaryRequest } from '../../../shared/escalation.ts'
import type { EventBody } from '../../../shared/events.ts'
import { LapsedRequests } from './lapsedRequests.ts'

test('a request that lapsed just before the end is on record, too', () => {
  const noted: EventBody[] = []
  {
    using _lapsed = new LapsedRequests(
      () => [{ id: 'a', status: 'expired' } as BoundaryRequest],
      (event) => noted.push(event),
    )
  }
  expect(noted).toMatchObject([{ type: 'BoundaryDenied', request: 'a' }])
})

test('a request that nobody answered in time is on record, once', () => {
  const requests = [
    { id: 'a', status: 'open' },
    { id: 'b', status: 'denied' },
  ] as BoundaryRequest[]
  const noted: EventBody[] = []
  using lapsed = new LapsedRequests(
    () => requests,
    (event) => noted.push(event),
  )
  lapsed.look()
  expect(noted).toEqual([])
  requests[0] = { ...requests[0]!, status: 'expired' }
  lapsed.look()
  lapsed.look()
  expect(noted).toEqual([
    { type: 'BoundaryDenied', request: 'a', by: 'nobody', why: 'nobody answered in time' },
  ])
})
