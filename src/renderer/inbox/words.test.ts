import { expect, test } from 'vitest'
import { takableHosts } from './words.ts'

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
