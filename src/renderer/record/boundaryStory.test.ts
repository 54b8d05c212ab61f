import { expect, test } from 'vitest'
import type { BoundaryGrant, BoundaryRequest } from '../../shared/escalation.ts'
import type { DispatchId } from '../../shared/ids.ts'
import { boundaryStory } from './boundaryStory.ts'

const grant = (at: string, more: Partial<BoundaryGrant>): BoundaryGrant => ({
  at,
  from: 'readwrite',
  to: 'network',
  hosts: [],
  taken: [],
  returned: [],
  by: 'ada',
  why: 'npm install',
  way: 'once',
  request: null,
  ...more,
})
const request = (status: BoundaryRequest['status'], at: string, message = ''): BoundaryRequest => ({
  id: status,
  dispatch: '20260101120000-0001' as DispatchId,
  to: 'full',
  hosts: ['a.test'],
  source: 'agent',
  by: 'claude',
  why: 'to see',
  status,
  count: 1,
  created_at: at,
  last_at: at,
  expires_at: '2026-01-01T12:15:00Z',
  answer: status === 'denied' ? { at, by: 'ada', way: 'once', message } : null,
})

test('one change alone is a story, with who and why', () => {
  expect(boundaryStory({ history: [grant('2026-01-01T12:00:00Z', {})], requests: [] })).toMatchObject([
    { from: 'readwrite', to: 'network', by: 'ada, once', why: 'npm install', changed: true },
  ])
})

test('what was denied and what nobody answered is told in its place, what was granted once', () => {
  const story = boundaryStory({
    history: [grant('2026-01-01T12:10:00Z', { way: 'narrowed', to: 'readonly', by: 'bo' })],
    requests: [
      request('expired', '2026-01-01T12:00:00Z'),
      request('denied', '2026-01-01T12:05:00Z', 'not today'),
      request('approved', '2026-01-01T12:06:00Z'),
      request('open', '2026-01-01T12:07:00Z'),
    ],
  })
  expect(story.map(({ by, why }) => `${by} | ${why}`)).toEqual([
    'denied by ada: not today | claude asked: to see',
    'bo, narrowed | npm install',
    'nobody answered in time | claude asked: to see',
  ])
})

test('a request that was over early stands where it was asked, not at a deadline that never came', () => {
  const [chapter] = boundaryStory({ history: [], requests: [request('closed', '2026-01-01T12:00:00Z')] })
  expect(chapter).toMatchObject({ at: '2026-01-01T12:00:00Z', by: 'over before anybody answered' })
})

test('what stayed beyond the config for a while was no question that somebody left unanswered', () => {
  const kept = {
    ...request('closed', '2026-01-01T12:00:00Z'),
    source: 'config' as const,
    why: 'at most readonly',
  }
  const [chapter] = boundaryStory({ history: [], requests: [kept] })
  expect(chapter).toMatchObject({ by: 'over now', why: 'Still beyond your config: at most readonly' })
})
