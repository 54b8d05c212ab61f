import { expect, test } from 'vitest'
import { PerMinute } from './perMinute.ts'

test('so many go through within any minute, and the next when the first is a minute old', () => {
  const pace = new PerMinute(2)
  expect([0, 10, 20, 60_000].map((at) => pace.take(at))).toEqual([true, true, false, false])
  expect([60_001, 60_005, 60_011].map((at) => pace.take(at))).toEqual([true, false, true])
})
