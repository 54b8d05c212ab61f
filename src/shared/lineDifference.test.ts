import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { lineDifference } from './lineDifference.ts'

const shown = (before: string, now: string) =>
  lineDifference(before, now).map(
    ({ kind, text }) => `${{ same: ' ', added: '+', removed: '-' }[kind]}${text}`,
  )

test('what stayed, went and came is told apart', () => {
  expect(shown('a\nb\nc\n', 'a\nx\nc\nd\n')).toEqual([' a', '-b', '+x', ' c', '+d'])
  expect(shown('', 'a\n')).toEqual(['+a'])
})

test('both texts can be read out of the difference, whatever they are', () => {
  const text = fc
    .array(fc.constantFrom('a', 'b', '', '{'), { maxLength: 8 })
    .map((lines) => lines.map((line) => `${line}\n`).join(''))
  fc.assert(
    fc.property(text, text, (before, now) => {
      const lines = lineDifference(before, now)
      const side = (without: string) =>
        lines
          .filter(({ kind }) => kind !== without)
          .map((line) => `${line.text}\n`)
          .join('')
      expect([side('added'), side('removed')]).toEqual([before, now])
    }),
  )
})
