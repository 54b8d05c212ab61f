import { expect, test } from 'vitest'
import type { BoundaryRequest } from '../../shared/escalation.ts'
import { askingOf, takableHosts } from './words.ts'

test('what can be taken back is what was granted and what the contract opens, and not what is gone', () => {
  const spec = {
    outputs: { allow: ['@npm', 'a.test', 'b.test'], pins: { 'p.test:1': '127.0.0.1:2', '10.0.0.0/8': 'x' } },
  }
  const state = { level: 'network', hosts: ['g.test:443', 'a.test'], taken: ['b.test'] } as const
  const at = { ...state, hosts: [...state.hosts], taken: [...state.taken] }
  expect(takableHosts(at, spec)).toEqual(['g.test:443', 'a.test', 'p.test:1'])
  expect(takableHosts({ ...at, level: 'readwrite' }, { ...spec, boundary: 'readwrite' })).toEqual([
    'g.test:443',
    'a.test',
  ])
  expect(takableHosts(at, null)).toEqual(['g.test:443', 'a.test'])
  const many = Array.from({ length: 20 }, (_, index) => `h${index}.test`)
  expect(takableHosts({ ...at, hosts: many }, null)).toHaveLength(8)
})

test('a dispatch that only stays beyond the config is not said to ask for more', () => {
  const request = (dispatch: string, source: BoundaryRequest['source']) =>
    ({ dispatch, source }) as BoundaryRequest
  const asking = askingOf([
    request('a', 'config'),
    request('a', 'agent'),
    request('b', 'agent'),
    request('b', 'config'),
    request('c', 'config'),
  ])
  expect([...asking].map(([id, { label }]) => [id, label])).toEqual([
    ['a', 'Asks for more'],
    ['b', 'Asks for more'],
    ['c', 'Beyond config'],
  ])
})
