import { expect, test } from 'vitest'
import { ago, bytes, duration } from './time.ts'

const now = Date.parse('2026-11-16T12:00:00Z')

test('the age of a dispatch is said in its largest unit', () => {
  expect(ago('2026-11-16T11:59:40Z', now)).toBe('now')
  expect(ago('2026-11-16T11:41:00Z', now)).toBe('19m')
  expect(ago('2026-11-16T07:00:00Z', now)).toBe('5h')
  expect(ago('2026-11-13T12:00:00Z', now)).toBe('3d')
  expect(ago('not a date', now)).toBe('')
})

test('durations keep the precision a person can use', () => {
  expect(duration(-4)).toBe('0 ms')
  expect(duration(640)).toBe('640 ms')
  expect(duration(8_240)).toBe('8.2 s')
  expect(duration(12_000)).toBe('12 s')
  expect(duration(184_000)).toBe('3m 04s')
  expect(duration(7_860_000)).toBe('2h 11m')
})

test('sizes are said in the unit they fill', () => {
  expect(bytes(12)).toBe('12 B')
  expect(bytes(2048)).toBe('2.0 KB')
  expect(bytes(612 * 1024)).toBe('612 KB')
  expect(bytes(5 * 1024 * 1024)).toBe('5.0 MB')
})
