import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { pause } from './pause.ts'

test.each([2_592_000_000, 2 ** 31, 2 ** 40])('a pause of %s ms is not over at once', async (ms) => {
  const end = new AbortController()
  const paused = pause(ms, end.signal)
  expect(await Promise.race([paused, sleep(50, 'still paused')])).toBe('still paused')
  end.abort()
  expect(await paused).toBe(false)
})

test('a pause ends by itself when its time is over', async () => {
  expect(await pause(1, new AbortController().signal)).toBe(true)
})
