import { expect, test } from 'vitest'
import { opens } from './words.ts'

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
