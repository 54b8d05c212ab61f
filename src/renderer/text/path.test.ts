import { expect, test } from 'vitest'
import { partsOf } from './path.ts'

test('a path is cut before its name and before a short ending', () => {
  expect(partsOf('src/a/card.test.tsx')).toEqual({ folder: 'src/a/', stem: 'card.test', ending: '.tsx' })
  expect(partsOf('Makefile')).toEqual({ folder: '', stem: 'Makefile', ending: '' })
  expect(partsOf('/home/ada/shop')).toEqual({ folder: '/home/ada/', stem: 'shop', ending: '' })
})

test('a dot in front is no ending, and neither is half a sentence after a dot', () => {
  expect(partsOf('.envrc')).toEqual({ folder: '', stem: '.envrc', ending: '' })
  expect(partsOf('v1.not an ending at all').ending).toBe('')
})

test('the parts of a path make up the path', () => {
  for (const path of ['', '/', 'a/', 'a/b/', '.a/.b', 'x..y', '/a.b/c'])
    expect(Object.values(partsOf(path)).join('')).toBe(path)
})
