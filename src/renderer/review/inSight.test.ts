import { expect, test } from 'vitest'
import { isOfHunk } from './inSight.ts'

test('a drawn line belongs to a hunk by the side it stands on', () => {
  expect(isOfHunk('@@ -10,2 +20,3 @@ fn()', 10, true)).toBe(true)
  expect(isOfHunk('@@ -10,2 +20,3 @@ fn()', 12, true)).toBe(false)
  expect(isOfHunk('@@ -10,2 +20,3 @@ fn()', 10, false)).toBe(false)
  expect(isOfHunk('@@ -10,2 +20,3 @@ fn()', 22, false)).toBe(true)
  expect(isOfHunk('@@ -1 +1 @@', 1, false)).toBe(true)
  expect(isOfHunk('@@ -1 +1 @@', 2, false)).toBe(false)
  expect(isOfHunk('no header', 1, false)).toBe(false)
})
