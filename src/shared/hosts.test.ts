import { expect, test } from 'vitest'
import { formatHostPattern, parseHostPattern, showTarget, someHostCovers } from './hosts.ts'

test.each([
  ['bücher.example', 'xn--bcher-kva.example'],
  ['*.BÜCHER.example:443', '*.xn--bcher-kva.example:443'],
  ['bücher。example。', 'xn--bcher-kva.example'],
  ['0x7f.1:80', '127.0.0.1:80'],
  ['2130706433', '127.0.0.1'],
  ['[::FFFF:127.0.0.1]:80', '127.0.0.1:80'],
  ['[2606:4700:0::1]', '[2606:4700::1]'],
  ['2606:4700::1', '[2606:4700::1]'],
  [' Example.COM. ', 'example.com'],
])('the host %j is read as %j', (text, host) => {
  const pattern = parseHostPattern(text)
  expect(pattern === undefined ? null : formatHostPattern(pattern)).toBe(host)
})

test.each([
  'bü cher.example',
  'bücher@other.example',
  'bü*.example',
  'bücher.example/x',
  'bücher%2e.example',
  'foo.123',
  '1.2.3.256',
  'a.0x',
  '*.1.1.1.1',
  '*.0x7f.1',
  '[1::2::3]',
  '[fe80::1%eth0]',
  '*.',
  '*。',
  '＊.example',
  '*',
  ' * ',
  '*:443',
  '',
  ':443',
  'a..b',
  'a:b:c',
])('%j is no host', (text) => {
  expect(parseHostPattern(text)).toBeUndefined()
})

test('a name covers itself in either spelling', () => {
  expect(someHostCovers(['bücher.example'], 'xn--bcher-kva.example:443')).toBe(true)
  expect(someHostCovers(['bücher.example'], 'bucher.example')).toBe(false)
})

test.each([
  ['2a00:5::5', 80, '[2a00:5::5]:80'],
  ['2a00:5::5', null, '[2a00:5::5]'],
  ['::1', 443, '[::1]:443'],
  ['1.2.3.4', 80, '1.2.3.4:80'],
  ['example.com', null, 'example.com'],
])('what a program wanted, %s at %s, is shown as the rule that means it', (host, port, shown) => {
  expect(showTarget({ host, port })).toBe(shown)
  const pattern = parseHostPattern(shown)
  expect(pattern).toEqual({ host: showTarget({ host, port: null }), port })
})
