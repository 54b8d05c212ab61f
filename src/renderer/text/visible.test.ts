import { expect, test } from 'vitest'
import { piecesOf, showAll, showHidden } from './visible.ts'

test('a right-to-left override is named, not obeyed', () => {
  expect(showAll('annexe\u202Egpj.exe')).toBe('annexe‹U+202E›gpj.exe')
})

test('control characters in a name are named', () => {
  expect(showAll('a\nb\u001b[31m\u007f')).toBe('a‹LF›b‹ESC›[31m‹DEL›')
  expect(showAll('\u009b31m')).toBe('‹U+009B›31m')
})

test('zero-width, tag and byte-order characters are named', () => {
  expect(showAll('pass\u200bword\ufeff\u{e0041}')).toBe('pass‹U+200B›word‹U+FEFF›‹U+E0041›')
})

test('tabs, line breaks and escape sequences of terminal output stay', () => {
  expect(showHidden('a\tb\r\n\u001b[1mc')).toBe('a\tb\r\n\u001b[1mc')
})

test('ordinary text of any script is left as it is', () => {
  expect(showAll('naïve 日本語 עברית 🍊 ❤️ 👩‍🚀')).toBe('naïve 日本語 עברית 🍊 ❤️ 👩‍🚀')
})

test('a joiner or variation selector away from an emoji is named', () => {
  expect(showAll('a\u200db\ufe0f')).toBe('a‹U+200D›b‹U+FE0F›')
})

test('only what was escaped is marked as an escape', () => {
  expect(piecesOf('a\n').map((piece) => piece.escape)).toEqual([false, true])
  expect(piecesOf('‹really›').map((piece) => piece.escape)).toEqual([false])
})

test('pieces tell escapes from text', () => {
  expect(piecesOf('a\u202eb')).toEqual([
    { at: 0, text: 'a', escape: false },
    { at: 1, text: '‹U+202E›', escape: true },
    { at: 9, text: 'b', escape: false },
  ])
})
