import { expect, test } from 'vitest'
import { railsOf } from './rails.ts'
import type { ListEntry } from './words.ts'

const family = (...depths: number[]) =>
  depths.map((depth) => ({ kind: 'row', depth, row: {} }) as unknown as ListEntry)

test('a line runs from a parent past its grandchildren to its last child, and no further', () => {
  const group: ListEntry = { kind: 'group', group: 'earlier', count: 1 }
  expect(railsOf([group, ...family(0, 1, 2, 1, 0), group, ...family(0)])).toEqual([
    { depth: 0, past: [], opens: false },
    { depth: 0, past: [], opens: true },
    { depth: 1, past: [1], opens: true },
    { depth: 2, past: [1], opens: false },
    { depth: 1, past: [], opens: false },
    { depth: 0, past: [], opens: false },
    { depth: 0, past: [], opens: false },
    { depth: 0, past: [], opens: false },
  ])
})

test('the deepest of a long line stand under each other', () => {
  expect(railsOf(family(0, 1, 2, 3, 4, 5, 6)).map(({ depth }) => depth)).toEqual([0, 1, 2, 3, 4, 4, 4])
})
