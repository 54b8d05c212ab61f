import { expect, test } from 'vitest'
import { lastTimes } from './chain.ts'

const first = ['0m0.010000s 0m0.020000s', '0m0.000000s 0m0.030000s']
const second = ['0m0.010000s 0m0.020000s', '1m0.200000s 0m0.040000s']

test('of what the holder tells of its times twice the second counts, be it cut off or not', () => {
  expect(lastTimes([])).toBe(0)
  expect(lastTimes(first)).toBe(60)
  expect(lastTimes([...first, ...second])).toBe(60_270)
  expect(lastTimes([...first, ...second.slice(0, 1)])).toBe(60)
})
