import { expect, test } from 'vitest'
import { credentialSchema } from './config.ts'

const given = { hosts: ['api.test'], env: 'KEY' }
const isTaken = (more: object) => credentialSchema.safeParse({ ...given, ...more }).success

test('a credential goes into a header of its own, never into one that says where a request goes or ends', () => {
  expect(isTaken({})).toBe(true)
  expect(isTaken({ header: 'X-Api-Key', value: 'Key {secret}' })).toBe(true)
  for (const header of ['Host', 'content-length', 'Connection', 'Transfer-Encoding', 'A: b'])
    expect(isTaken({ header }), header).toBe(false)
  expect(isTaken({ value: 'Bearer' })).toBe(false)
})
