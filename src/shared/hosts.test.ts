import { expect, test } from 'vitest'
import { formatHostPattern, parseHostPattern, someHostCovers } from './hosts.ts'

test.each([
  ['bücher.example', 'xn--bcher-kva.example'],
  ['*.BÜCHER.example:443', '*.xn--bcher-kva.example:443'],
  ['bücher。example。', 'xn--bcher-kva.example'],
])('the international name %j is read as %j', (text, host) => {
  const pattern = parseHostPattern(text)
  expect(pattern === undefined ? null : formatHostPattern(pattern)).toBe(host)
})

test.each([
  'bü cher.example',
  'bücher@other.example',
  'bü*.example',
  'bücher.example/x',
  'bücher%2e.example',
])('%j is no host', (text) => {
  expect(parseHostPattern(text)).toBeUndefined()
})

test('a name covers itself in either spelling', () => {
  expect(someHostCovers(['bücher.example'], 'xn--bcher-kva.example:443')).toBe(true)
  expect(someHostCovers(['bücher.example'], 'bucher.example')).toBe(false)
})
