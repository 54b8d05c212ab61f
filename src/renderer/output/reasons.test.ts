import { expect, test } from 'vitest'
import { isAboutLevel, reasonsOf } from './reasons.ts'

test('the reasons of a failed preflight stand one by one, each once', () => {
  expect(
    reasonsOf('preflight: roots: /b lies inside /a; sandbox: level 3: not here; sandbox: level 3: not here'),
  ).toEqual(['roots: /b lies inside /a', 'sandbox: level 3: not here'])
  expect(reasonsOf(null)).toHaveLength(1)
})

test('another level is offered only where the level was in the way', () => {
  expect(isAboutLevel('sandbox: level 3: not part of this release of Orangery')).toBe(true)
  expect(isAboutLevel('root /nowhere: it does not exist')).toBe(false)
})
