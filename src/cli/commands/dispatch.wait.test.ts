import { expect, test } from 'vitest'
import { exitCodeOf } from './dispatch.wait.ts'

test('wait ends with the command’s own code, 128+n for a signal, 124 for our time limit', () => {
  expect(exitCodeOf({ status: 'completed', exit_code: 0 })).toBe(0)
  expect(exitCodeOf({ status: 'failed', exit_code: 7 })).toBe(7)
  expect(exitCodeOf({ status: 'failed', exit_code: 139 })).toBe(139)
  expect(exitCodeOf({ status: 'timeout', exit_code: 137 })).toBe(124)
  expect(exitCodeOf({ status: 'preflight_failed', exit_code: null })).toBe(69)
})

test('a dispatch that vanished never looks like a success', () => {
  expect(exitCodeOf({ status: 'interrupted', exit_code: null })).not.toBe(0)
  expect(exitCodeOf({ status: 'failed', exit_code: null })).not.toBe(0)
  expect(exitCodeOf({ status: 'cancelled', exit_code: null })).not.toBe(0)
})
