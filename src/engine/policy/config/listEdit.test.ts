import { array, assert, boolean, constantFrom, nat, property, tuple } from 'fast-check'
import { parse } from 'jsonc-parser'
import { expect, test } from 'vitest'
import { withListItem, withoutEmptyList, withoutListItem } from './listEdit.ts'

const added = (text: string) => withListItem(text, 'list', { a: 'new', b: ['x'] })
const item = '{ "a": "new", "b": ["x"] }'

test.each([
  ['an empty file', '', `{\n  "list": [\n    ${item}\n  ]\n}\n`],
  ['an empty object', '{}', `{\n  "list": [\n    ${item}\n  ]\n}`],
  ['no list yet', '{\n\t"x": 1\n}\n', `{\n\t"x": 1,\n\t"list": [\n\t\t${item}\n\t]\n}\n`],
  ['a trailing comma', '{\n  "x": 1, // one\n}\n', `{\n  "x": 1, // one\n  "list": [\n    ${item}\n  ]\n}\n`],
  ['an empty list', '{\n  "list": []\n}\n', `{\n  "list": [\n    ${item}\n  ]\n}\n`],
  [
    'a list that holds only a comment',
    '{\n  "list": [\n    // none\n  ]\n}\n',
    `{\n  "list": [\n    // none\n    ${item}\n  ]\n}\n`,
  ],
  [
    'a comment behind the last item',
    '{\n  "list": [\n    { "a":1 } // keep, please\n    // and this\n  ]\n}\n',
    `{\n  "list": [\n    { "a":1 }, // keep, please\n    // and this\n    ${item}\n  ]\n}\n`,
  ],
  [
    'a trailing comma in the list',
    '{\n  "list": [\n    1,\n  ]\n}\n',
    `{\n  "list": [\n    1,\n    ${item}\n  ]\n}\n`,
  ],
  ['a list on one line', '{ "list": [1, 2] }', `{ "list": [1, 2, ${item}] }`],
])('adding to %s changes nothing else', (_name, before, after) => {
  expect(added(before)).toBe(after)
})

test.each([
  ['the only item', '{\n  "list": [\n    1\n  ]\n}', 0, '{\n  "list": [\n  ]\n}'],
  [
    'the first',
    '{\n  "list": [\n    1, // one\n    2\n  ]\n}',
    0,
    '{\n  "list": [\n     // one\n    2\n  ]\n}',
  ],
  [
    'the last, with a comment behind the one before',
    '{\n  "list": [\n    1, // one\n    2\n  ]\n}',
    1,
    '{\n  "list": [\n    1 // one\n  ]\n}',
  ],
  ['one of a line', '{ "list": [1, 2, 3] }', 1, '{ "list": [1,  3] }'],
  [
    'one with a trailing comma',
    '{\n  "list": [\n    1,\n    2,\n  ]\n}',
    1,
    '{\n  "list": [\n    1,\n  ]\n}',
  ],
])('taking out %s changes nothing else', (_name, before, index, after) => {
  expect(withoutListItem(before, 'list', index)).toBe(after)
})

test.each([
  ['the last key', '{\n  "a": 1, // one\n  "list": [\n  ]\n}\n', '{\n  "a": 1 // one\n}\n'],
  ['the first key', '{\n  // mine\n  "list": [],\n  "a": 1\n}\n', '{\n  // mine\n  "a": 1\n}\n'],
  ['a list with a comment', '{ "list": [ /* why */ ] }', '{ "list": [ /* why */ ] }'],
  ['a list with an item', '{ "list": [1] }', '{ "list": [1] }'],
])('an empty list goes with its key, %s, and a comment stays', (_name, before, after) => {
  expect(withoutEmptyList(before, 'list')).toBe(after)
})

test('whatever the layout and the comments, an edit changes the list by exactly that item and keeps every comment', () => {
  const gap = array(constantFrom(' ', '\n', '\t', '/* , ] */', '// , ] }\n', '\r\n'), { maxLength: 4 }).map(
    (parts) => parts.join(''),
  )
  const value = constantFrom('1', '"a,]"', '{ "x": [1, {}] }', '[]', 'null')
  const list = tuple(array(tuple(gap, value, gap), { maxLength: 4 }), gap, boolean()).map(
    ([items, tail, comma]) => {
      const inside = items.map((parts) => parts.join('')).join(',')
      return `[${inside}${comma && items.length > 0 ? ',' : ''}${tail}]`
    },
  )
  const file = tuple(gap, gap, list, gap, boolean()).map(
    ([a, b, text, c, other]) => `${a}{${b}"list":${text}${other ? `,${c}"other": 1` : c}}${a}`,
  )
  const comments = (text: string) => (text.match(/\/\* , \] \*\/|\/\/ , \] \}/g) ?? []).length
  assert(
    property(file, nat(3), (before, at) => {
      const old = parse(before, [], { allowTrailingComma: true }) as { list: unknown[]; other?: number }
      const more = added(before)
      const errors: never[] = []
      expect(parse(more, errors, { allowTrailingComma: true })).toEqual({
        ...old,
        list: [...old.list, { a: 'new', b: ['x'] }],
      })
      expect(errors).toEqual([])
      expect(comments(more)).toBe(comments(before))
      if (at >= old.list.length) return
      const less = withoutListItem(before, 'list', at)
      expect(parse(less, errors, { allowTrailingComma: true })).toEqual({
        ...old,
        list: old.list.toSpliced(at, 1),
      })
      expect(errors).toEqual([])
      expect(comments(less)).toBe(comments(before))
    }),
    { numRuns: 400 },
  )
})
