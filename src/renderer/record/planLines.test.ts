import { expect, test } from 'vitest'
import { planLines } from './planLines.ts'

test('a plan is read fact by fact, whatever its paths hold', () => {
  expect(planLines('level 1, bubblewrap 0.8.0\nread-only  /usr\nhidden     "/a b" (why)\n')).toEqual([
    { at: 0, what: 'level', rest: '1, bubblewrap 0.8.0' },
    { at: 1, what: 'read-only', rest: '/usr' },
    { at: 2, what: 'hidden', rest: '"/a b" (why)' },
  ])
  expect(planLines('')).toEqual([])
})
