import { array, assert, constantFrom, oneof, property, string } from 'fast-check'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { hostPatternText } from '../../../shared/hostPatternText.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { parseConfig } from './read.ts'
import { publishedSchema } from './schema.main.ts'

const published = z.fromJSONSchema(JSON.parse(publishedSchema()))
const bySchema = (value: unknown): boolean => published.safeParse(value).success
function byReader(value: unknown): boolean {
  try {
    return parseConfig({ file: 'config.json', text: JSON.stringify(value), sha256: '' }).warnings.length === 0
  } catch (error) {
    if (error instanceof OrangeryError && error.code === 'config.invalid') return false
    throw error
  }
}

const long = 'x'.repeat(63)
const hosts: readonly [boolean, readonly string[]][] = [
  [
    true,
    ['example.com', 'EXAMPLE.com:443', '*.example.org', '*.example.org:1', 'localhost', 'a_b.test', 'a.'],
  ],
  [true, [' example.com ', 'bücher.example', '*.bücher.example:80', '例え。テスト', `${long}.test`]],
  [true, ['россия.рф', '한국.kr', 'größe-für-alle.example.com', 'xn--4dbrk0ce.test']],
  [
    true,
    ['1.2.3.4', '1.2.3.4:5', '0x7f.1', '4294967295', '0377.1', '1.2.65535', '[::1]:443', '::1', 'fe80::1:2'],
  ],
  [
    true,
    ['1:2:3:4:5:6:7:8', '::ffff:1.2.3.4', '1::', '[1:2:3:4:5:6:7::]', 'A::F', 'a.test:00443', '1.a.test'],
  ],
  [
    false,
    ['', ' ', '*', '*.', '**.example.com', 'a.*.test', '*.1.2.3.4', 'http://a.test', 'a.test/path', '@npm'],
  ],
  [
    false,
    ['a b.test', 'a..test', '.test', '-a.test', 'a-.test', `x${long}.test`, `${`${long}.`.repeat(4)}test`],
  ],
  [
    false,
    ['a.test:', 'a.test:0', 'a.test:000', 'a.test:65536', 'a.test:100000', 'a.test:x', 'a.test:1:2', ':443'],
  ],
  [false, ['256.1.1.1', '1.2.3.4.5', '1.2.65536', '4294967296', '08.1', 'a.1', 'a.0x1', 'bücher..example']],
  [
    false,
    ['1:2:3:4:5:6:7', '1::2::3', '1:2:3:4:5:6:7:8::', '::1.2.3', '::12345', '[::1', '::1]', '*.[::1]', ':::'],
  ],
  [
    false,
    ['me@a.test', 'a%2e.test', 'a.test?', 'a.test#b', 'a\\b.test', 'a$.test', 'ü$.test', 'a.test\u0000'],
  ],
]
const hostPlaces = (host: string): readonly object[] => [
  { sandboxLevels: { network: { hosts: [host] } } },
  { sandboxLevels: { readonly: { deniedHosts: [host] } } },
  { sandboxAutoEscalation: { hosts: [host] } },
  { sandboxApprovedEscalations: [{ level: 'network', hosts: [host] }] },
  { sandboxCredentials: [{ hosts: [host], env: 'TOKEN' }] },
]

const inside: readonly [boolean, readonly string[]][] = [
  [
    true,
    ['TODO.md', 'docs/a b.md', './docs', 'docs/', '..a', 'a..', 'a/..b/c', '...', '~/a', 'a\nb', 'a//b', ' '],
  ],
  [false, ['', '/', '/etc/passwd', '..', '../a', 'a/..', 'a/../b', './..', 'a\n/../b', 'a\u0000b']],
]
const root: readonly string[] = ['.', './', './.', './/.', '././']

const hide: readonly [boolean, readonly string[]][] = [
  [
    true,
    ['.env*', '/etc', '~/.ssh', '**/a', 'a/**/b/**/c/**/d/**', '\\!a', 'a!', '\\{a,b}', '{a}', 'a..b', '$a'],
  ],
  [true, ['a\\\\', '$HOMES/a', 'x$HOME/a', '(a|b)', '+(a)', '{a', 'a,b}', '~a', '***/**/**/**/**', 'a\nb']],
  [
    false,
    ['', ' ', '\t', '!a', '..', '../a', 'a/..', 'a/../b', '/', '.', './', '~', '~/', '~/.', '//', 'a\u0000'],
  ],
  [
    false,
    ['{a,b}', 'x{1..3}', 'a/{b,c}/d', '@(a|b)', 'x+(a|)', '${HOME}/a', '$HOME/a', '$PWD/', 'a\\', 'a\\\\\\'],
  ],
  [false, ['a/**/b/**/c/**/d/**/**', '**/**/**/**/**', 'a\n{b,c}']],
]

function agree(value: object, isAllowed: boolean): void {
  const shown = JSON.stringify(value)
  expect(byReader(value), `the reader on ${shown}`).toBe(isAllowed)
  expect(bySchema(value), `the schema on ${shown}`).toBe(isAllowed)
}

test('the published schema takes the hosts that the reader takes, and no other', () => {
  for (const [isAllowed, texts] of hosts)
    for (const text of texts) for (const value of hostPlaces(text)) agree(value, isAllowed)
})

test('the published schema takes the paths inside a root that the reader takes, and no other', () => {
  for (const [isAllowed, texts] of inside)
    for (const text of texts) {
      agree({ sandboxPhaseFiles: { plan: [text] } }, isAllowed)
      agree({ sandboxLevels: { readwrite: { writable: [text] } } }, isAllowed)
      agree({ sandboxLevels: { readonly: { writable: [text] } } }, isAllowed)
    }
  for (const text of root) {
    agree({ sandboxLevels: { readwrite: { writable: [text] } } }, true)
    agree({ sandboxLevels: { readonly: { writable: [text] } } }, false)
  }
})

test('the published schema takes the patterns to hide that the reader takes, and no other', () => {
  for (const [isAllowed, texts] of hide)
    for (const text of texts) agree({ sandboxLevels: { full: { hide: [text] } } }, isAllowed)
})

const bits = 'a . .. / * ** *. : :: [ ] ! ~ \\ { } , | ( + @ $ - _ 0 1 255 256 0x 65535 65536 ffff HOME % \n'
const text = array(constantFrom(...bits.split(' '), ' ', long, '$HOME/', '1.2.3.4', '::1'), {
  maxLength: 8,
}).map((parts) => parts.join(''))

test('schema and reader agree about any text in plain letters', () => {
  assert(
    property(text, (each) => {
      for (const value of [
        { sandboxApprovedEscalations: [{ level: 'network', hosts: [each] }] },
        { sandboxLevels: { readonly: { writable: [each] } } },
        { sandboxLevels: { readwrite: { writable: [each], hide: ['a'] } } },
        { sandboxLevels: { full: { hide: [each] } } },
      ])
        expect(bySchema(value), JSON.stringify(value)).toBe(byReader(value))
    }),
    { numRuns: 500 },
  )
})

test('whatever letters a name has, the schema takes none that the reader refuses', () => {
  const known =
    'ü É ß ő Ω ж 例 テ ー 한 。 a 1 - . _ xn-- :1 * \u00ad \ufeff １ Ａ \u212a 😀 \u00a0 א \u0301'.split(' ')
  const letter = oneof(constantFrom(...known), string({ unit: 'binary', maxLength: 2 }))
  assert(
    property(array(letter, { maxLength: 45, size: 'max' }), (parts) => {
      const value = { sandboxAutoEscalation: { hosts: [parts.join('')] } }
      if (bySchema(value)) expect(byReader(value), JSON.stringify(value)).toBe(true)
    }),
    { numRuns: 1000 },
  )
})

// Editors compile patterns with the flag, our check here without.
test('a pattern of the published schema means the same with the flag u', () => {
  for (const [, pattern] of publishedSchema().matchAll(/"pattern": (".*")/g))
    expect(() => new RegExp(JSON.parse(pattern!) as string, 'u')).not.toThrow()
  const unicode = new RegExp(hostPatternText, 'u')
  for (const [isAllowed, texts] of hosts)
    for (const each of texts) expect(unicode.test(each), each).toBe(isAllowed)
})
