import { expect, test } from 'vitest'
import { OutputReader } from './reader.ts'

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')
const utf8 = (text: string) => new TextEncoder().encode(text)

test('a character cut between two pieces is read whole', () => {
  const reader = new OutputReader()
  const bytes = utf8('a🍊b')
  const text = reader.read(0, base64(bytes.subarray(0, 3))) + reader.read(3, base64(bytes.subarray(3)))
  expect(text).toBe('a🍊b')
})

test('bytes that come again after a reconnection are not shown twice', () => {
  const reader = new OutputReader()
  expect(reader.read(0, base64(utf8('hello ')))).toBe('hello ')
  expect(reader.read(0, base64(utf8('hello world')))).toBe('world')
  expect(reader.read(3, base64(utf8('lo')))).toBe('')
})

test('colours stay, characters that reorder text are named', () => {
  const reader = new OutputReader()
  expect(reader.read(0, base64(utf8('\u001b[31mred\u202eder\r\n')))).toBe('\u001b[31mred‹U+202E›der\r\n')
})

test('lines written to a pipe start at the left, those of a terminal are left alone', () => {
  const pipe = new OutputReader()
  expect(pipe.read(0, base64(utf8('one\ntwo\n')))).toBe('one\r\ntwo\r\n')
  const terminal = new OutputReader()
  expect(terminal.read(0, base64(utf8('one\r\ndown\nhere')))).toBe('one\r\ndown\nhere')
})
