import { expect, test } from 'vitest'
import { titlesIn } from './titles.ts'

const of = (text: string) => titlesIn('some.test.ts', text)

test('a test counts by its title, however it is called', () => {
  expect(of("test('a', () => {})")).toEqual(['a'])
  expect(of("it('a', () => {})")).toEqual(['a'])
  expect(of("test.each([1, 2])('a %s', (n) => {})")).toEqual(['a %s'])
  expect(of("test.for([1])('a', { timeout: 1 }, (n) => {})")).toEqual(['a'])
  expect(of('for (const n of [1]) test(`a ${n} b`, () => {})')).toEqual(['a … b'])
  expect(of("describe('x', () => { test('a', () => {}) })")).toEqual(['a'])
  expect(of("test.skipIf(isRoot)('a', () => {})")).toEqual(['a'])
})

test('a comment, a text, and a test that never runs do not count', () => {
  expect(of("// test('a', () => {})")).toEqual([])
  expect(of("const words = 'a'; expect('a').toBe('a')")).toEqual([])
  expect(of("test.skip('a', () => {})")).toEqual([])
  expect(of("test.each([1]).skip('a', () => {})")).toEqual([])
  expect(of("test.skip.each([1])('a', () => {})")).toEqual([])
  expect(of("test.todo('a')")).toEqual([])
  expect(of("describe.skip('x', () => { test('a', () => {}) })")).toEqual([])
  expect(of("test.skipIf(true)('a', () => {})")).toEqual([])
  expect(of("test.runIf(false)('a', () => {})")).toEqual([])
  expect(of("if (false) test('a', () => {})")).toEqual([])
})
