import { expect, test } from 'vitest'
import type { BytePath } from '../bytePath.ts'
import type { Entry } from '../manifest.ts'
import { largeFile } from '../objects/objects.ts'
import { largestWithin } from './view.ts'

const megabyte = 1024 ** 2
const added = (size: number): Entry => ({
  root: '/r',
  path: String(size) as BytePath,
  base: null,
  result: { kind: 'file', mode: 0o644, size, sha256: '', oid: '' },
  certain: true,
  protected: false,
  ignored: false,
  refused: null,
})

test('no file above the threshold, and not all texts together, are ever read for a diff', () => {
  const threshold = (...sizes: number[]) => largestWithin(sizes.map(added), 96 * megabyte)
  expect(threshold(1, 1024 * megabyte)).toBe(largeFile)
  expect(threshold(60 * megabyte)).toBe(largeFile)
  // Git reads what is exactly as large as its threshold.
  expect(threshold(...Array.from({ length: 20 }, () => 5 * megabyte))).toBe(5 * megabyte - 1)
  expect(threshold(0)).toBe(largeFile)
})
