import { stripVTControlCharacters } from 'node:util'
import { expect, test } from 'vitest'
import type { BoundaryRequest, BoundaryState } from '../../shared/escalation.ts'
import { renderApprovals, renderInbox, renderState, renderWaiting } from './boundary.render.ts'

const now = new Date('2026-01-01T12:00:00Z')
const hosts = Array.from({ length: 12 }, (_, at) => `host-${at}.test:443`)
const request = {
  id: 'ab12cd34',
  dispatch: '20260101115900-aaaa',
  to: 'network',
  hosts,
  source: 'agent',
  by: 'claude',
  why: 'npm install',
  status: 'open',
  count: 2,
  created_at: '2026-01-01T11:59:00Z',
  last_at: '2026-01-01T11:59:00Z',
  expires_at: '2026-01-01T12:14:00Z',
  answer: null,
} as unknown as BoundaryRequest
const waiting = { request, row: { boundary: 'readonly' as const, roots: ['/projects/shop'] } }

test('the inbox shows what an agent has, every host it asks for, that files come with them, until when one can answer, and where it works', () => {
  for (const text of [renderInbox([waiting], now), renderWaiting(waiting, now)]) {
    for (const part of [
      'readonly',
      `network ${hosts.join(' ')}, and to write files`,
      '14 min 0 s',
      '/projects/shop',
    ])
      expect(stripVTControlCharacters(text)).toContain(part)
  }
})

test('the inbox says that a wildcard is a whole top-level domain, or every name below', () => {
  const wide = { ...waiting, request: { ...request, hosts: ['*.com', '*.co.uk:443'] } }
  for (const text of [renderInbox([wide], now), renderWaiting(wide, now)])
    expect(stripVTControlCharacters(text)).toContain(
      'network *.com *.co.uk:443 (the whole top-level domain com, whoever has a name in it) (every name below co.uk, whoever has it)',
    )
})

test('the history of a boundary names the hosts that were granted', () => {
  const grant = { at: now.toISOString(), from: 'readonly', to: 'readonly', by: 'root', why: 'asked' }
  const state = {
    id: request.dispatch,
    level: 'readonly',
    hosts: [],
    taken: [],
    running: true,
    enforced: true,
    history: [{ ...grant, hosts: ['evil.test:443'] }],
    requests: [],
  } as unknown as BoundaryState
  expect(stripVTControlCharacters(renderState(state))).toContain('evil.test:443')
})

test('the list of approvals says in which phase one counts', () => {
  const approval = {
    id: 'a'.repeat(64),
    agent: '*',
    level: 'network' as const,
    hosts: [],
    phase: 'plan' as const,
    source: 'user' as const,
    file: '/config.json',
    line: 1,
    covers: null,
    expired: false,
    here: true,
  }
  expect(renderApprovals({ saved: [approval], tasks: [] })).toContain('everywhere, phase plan')
})

test('the list of approvals says which of them answer nothing in the folder it is for', () => {
  const approval = {
    id: 'a'.repeat(64),
    agent: '*',
    level: 'network' as const,
    hosts: [],
    source: 'user' as const,
    file: '/config.json',
    line: 1,
    covers: ['/projects/shop'],
    expired: false,
  }
  const listed = (here: boolean) => renderApprovals({ saved: [{ ...approval, here }], tasks: [] })
  expect(listed(false)).toContain('not here: /projects/shop')
  expect(listed(true)).not.toContain('not here')
})
