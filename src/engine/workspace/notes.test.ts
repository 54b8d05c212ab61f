import { expect, test } from 'vitest'
import { changedPaths } from './notes.ts'

test('a file that was taken out of the index and still lies there is named once', () => {
  expect(changedPaths('D  new.txt\0 M a.txt\0?? new.txt\0')).toEqual(['new.txt', 'a.txt'])
})
