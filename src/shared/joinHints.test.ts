import { expect, test } from 'vitest'
import { joinHints } from './joinHints.ts'

test('of several ways out each can be told from the next, and none is told twice', () => {
  expect(joinHints([])).toBe('')
  expect(joinHints(['sudo a', 'sudo b', 'sudo a'])).toBe('sudo a; sudo b')
  expect(joinHints(['Choose level 1.', 'sudo a', 'Leave it out.'])).toBe(
    'Choose level 1. sudo a; Leave it out.',
  )
})
