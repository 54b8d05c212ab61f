import { expect, test } from 'vitest'
import { decodeText, encodeText, hasMarks } from './conflictText.ts'

const base64 = (bytes: Buffer | string) => Buffer.from(bytes).toString('base64')

test('text comes back as it was, byte order mark and all, however long', () => {
  for (const text of ['', 'ä\n', '\uFEFFx', 'long '.repeat(50_000)])
    expect(decodeText(encodeText(text))).toBe(text)
})

test('what a text field would change is not offered for editing', () => {
  expect(decodeText(base64(Buffer.from([0x66, 0xff])))).toBeNull()
  expect(decodeText(base64('one\r\ntwo\r\n'))).toBeNull()
})

test('marks of a merge are found at the start of a line and nowhere else', () => {
  expect(hasMarks('a\n<<<<<<< yours\nb\n=======\nc\n>>>>>>> the agent\n')).toBe(true)
  expect(hasMarks('a\n=======\n')).toBe(true)
  expect(hasMarks('x <<<<<<< y\n======= heading\n')).toBe(false)
})
