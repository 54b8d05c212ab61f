import { expect, test } from 'vitest'
import { boundaryLevels } from './boundary.ts'
import { opens, opensEveryHost, wildcardsInWords } from './opens.ts'

test('a request says what a yes would open, and only what is closed now', () => {
  expect(opens('readwrite', { to: 'network', hosts: ['registry.test:443'] })).toEqual([
    'Reach registry.test:443',
  ])
  expect(opens('readonly', { to: 'network', hosts: [] })).toEqual([
    'Write in its folders, into the changeset',
    'Reach the hosts this level allows',
  ])
  expect(opens('network', { to: 'network', hosts: ['other.test'] })).toEqual(['Reach other.test'])
  expect(opens('network', { to: 'full', hosts: [] })).toEqual([
    'Everything its sandbox level permits, any host included',
  ])
})

test('a request for network without a host says what it opens also where one host was granted before', () => {
  expect(opens('network', { to: 'network', hosts: [] })).toEqual(['Reach the hosts this level allows'])
})

test('a request names every host that a yes would open, whatever its level (escape: unnamed-host)', () => {
  for (const from of [null, ...boundaryLevels]) {
    for (const to of boundaryLevels) {
      const words = opens(from, { to, hosts: ['evil.test:443', 'worse.test'] }).join('\n')
      expect(words).toContain('Reach evil.test:443, worse.test')
    }
  }
})

test('a yes to one host at full is said, and is, a yes to that host alone (escape: one-host-for-all)', () => {
  const one = { to: 'full', hosts: ['a.test:80'] } as const
  expect(opens('full', one)).toEqual(['Reach a.test:80'])
  expect(opensEveryHost('full', one)).toBe(false)
  expect(opens('network', one)).toEqual([
    'Reach a.test:80',
    'Everything its sandbox level permits, any host included',
  ])
  expect(opens('full', { to: 'full', hosts: [] })).toEqual([
    'Everything its sandbox level permits, any host included',
  ])
})

test('a request for a wildcard says that it reaches a whole top-level domain, or every name below (escape: wildcard-for-all)', () => {
  expect(opens('readwrite', { to: 'network', hosts: ['*.com:443', '*.co.uk', 'a.test'] })).toEqual([
    'Reach *.com:443, *.co.uk, a.test',
    'That is the whole top-level domain com, whoever has a name in it',
    'That is every name below co.uk, whoever has it',
  ])
  expect(wildcardsInWords(['*.com', '*.COM.:80', 'com', '1.2.3.4', '[::1]:443'])).toHaveLength(1)
})
