import { expect, test } from 'vitest'
import { namesOf } from './namesOf.ts'

test('the first few are named and the rest is counted, with those beyond the list', () => {
  expect(namesOf(['a'], 2)).toBe('a')
  expect(namesOf(['a', 'b', 'c'], 2)).toBe('a, b and 1 more')
  expect(namesOf(['a', 'b', 'c'], 2, 40)).toBe('a, b and 41 more')
})
