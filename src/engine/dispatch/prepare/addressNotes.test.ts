import { expect, test } from 'vitest'
import { addressNotes } from './addressNotes.ts'

const outputs = (allow: readonly string[], pins: Readonly<Record<string, string>> = {}) => ({
  mode: 'restricted' as const,
  allow,
  deny: [],
  pins,
  always: [],
  readOnly: false,
  declared: true,
})

test('an allowed address is told to be reached through the proxy only, and a name is not', () => {
  const reach = outputs(['example.com', '93.184.216.34:443', '[2a00::1]:80', '*.example.org'], {
    'db.test:5432': '127.0.0.1:5432',
    '10.20.0.0/16': '127.0.0.1:80',
  })
  expect(addressNotes({ level: 1, outputs: reach })).toEqual([
    expect.stringMatching(
      /^93\.184\.216\.34:443, \[2a00::1\]:80, 10\.20\.0\.0\/16: reached through the proxy/,
    ),
  ])
  expect(addressNotes({ level: 0, outputs: reach })).toEqual([])
  expect(addressNotes({ level: 1, outputs: outputs(['example.com'], { 'db.test': '127.0.0.1:1' }) })).toEqual(
    [],
  )
})
