import { expect, test } from 'vitest'
import { renderFields, renderTable } from './table.ts'
import { showAll, showLines } from '../../shared/visible.ts'
import { age, duration, plural } from './words.ts'

test('columns line up, also with wide and combining characters', () => {
  const table = renderTable(
    ['name', 'what'],
    [
      ['日本', 'x'],
      ['e\u0301', 'y'],
      ['plain', 'z'],
    ],
  )
  expect(table.split('\n')).toEqual(['NAME   WHAT', '日本   x', 'e\u0301      y', 'plain  z'])
})

test('a name longer than the screen gives way, what is to be judged does not', () => {
  const long = 'n'.repeat(300)
  const lines = renderTable(['id', 'name', 'why'], [['1', long, 'x']], ['name'], 60).split('\n')
  expect(lines.map((line) => line.length <= 60)).toEqual([true, true])
  expect(lines[1]).toMatch(/^1 +n+… +x$/)
  expect(renderTable(['path', 'why'], [[long, 'x']], [], 60)).toContain(long)
})

test('a very long name pads no row but its own', () => {
  const long = 'n'.repeat(255)
  const lines = renderTable(
    ['path', 'why'],
    [
      [long, 'x'],
      ['short', 'y'],
    ],
  ).split('\n')
  expect(lines).toEqual(['PATH   WHY', `${long}  x`, 'short  y'])
})

test('fields have their names aligned', () => {
  expect(
    renderFields([
      ['id', '1'],
      ['status', 'running'],
    ]),
  ).toBe('id      1\nstatus  running')
})

test('a line stays a line and does nothing to the terminal, whatever is in it', () => {
  expect(showAll('a\nb\u001b[31m\u007f\u0085\u200bz')).toBe('a‹LF›b‹ESC›[31m‹DEL›‹U+0085›‹U+200B›z')
})

test('several lines keep their line breaks and tabs and nothing else', () => {
  expect(showLines('+\tone\r\n-\u202Etwo\n')).toBe('+\tone‹CR›\n-‹U+202E›two\n')
})

test('times read as people say them', () => {
  const now = new Date('2026-01-28T12:00:00Z')
  expect(age('2026-01-28T11:59:58Z', now)).toBe('just now')
  expect(age('2026-01-28T11:58:59Z', now)).toBe('1 minute ago')
  expect(age('2026-01-26T11:00:00Z', now)).toBe('2 days ago')
  expect(duration('2026-01-28T12:00:00Z', '2026-01-28T12:01:05Z')).toBe('1 min 5 s')
  expect(plural(1, 'change')).toBe('1 change')
})
