import { expect, test } from 'vitest'
import type { ChangedFile, Provenance } from '../../shared/changeset.ts'
import { commonOrigin, originOf, originWords } from './provenance.ts'

const from = (seq: number, certain = false): Provenance => ({ seq, at: '', title: `call ${seq}`, certain })
const file = (...origins: (Provenance | null)[]) =>
  ({ hunks: origins.map((provenance) => ({ provenance })) }) as unknown as ChangedFile

test('what one event wrote is said once for all of it', () => {
  const files = [file(from(3), from(3)), file(null), file(from(3))]
  const common = commonOrigin(files)
  expect(common?.seq).toBe(3)
  expect(originOf(files[0]!, 0, common)).toBeNull()
})

test('where several events wrote, each hunk names its own unless the one before it does', () => {
  const mixed = file(from(3), from(3), from(5), from(5, true))
  expect(commonOrigin([mixed])).toBeNull()
  expect([0, 1, 2, 3].map((hunk) => originOf(mixed, hunk, null)?.seq ?? null)).toEqual([3, null, 5, 5])
})

test('an origin that only fits in time is called likely', () => {
  expect(originWords(from(1))).toBe('Likely written by call 1')
  expect(originWords(from(1, true))).toBe('Written by call 1')
})
