import { expect, test } from 'vitest'
import type { NetworkPolicy } from '../base/contract.ts'
import { wishOfNeed } from './needs.ts'

const network: NetworkPolicy = {
  mode: 'restricted',
  allow: ['known.test'],
  deny: ['never.test'],
  pins: {},
  readOnly: false,
  taken: ['taken.test'],
  returned: ['taken.test:2'],
}
const at = (level: 'readonly' | 'readwrite' | 'network', writable: string[] = []) => ({
  level,
  network,
  scopes: { writableFiles: writable },
})
const write = (...paths: string[]) => ({ kind: 'write', paths }) as const
const reach = (...hosts: string[]) => ({ kind: 'reach', hosts }) as const

test('what the boundary allows as it is needs no question', () => {
  expect(wishOfNeed({ kind: 'nothing' }, at('readonly'))).toBeNull()
  expect(wishOfNeed(write('/p/a'), at('readwrite'))).toBeNull()
  expect(wishOfNeed(reach('known.test:443'), at('network'))).toBeNull()
  expect(
    wishOfNeed(reach('any.test:443'), { ...at('network'), network: { ...network, mode: 'open' } }),
  ).toBeNull()
})

test('a write where files are read-only asks for readwrite, but for the file its phase is for', () => {
  expect(wishOfNeed(write('/p/a'), at('readonly'))).toEqual({ to: 'readwrite', hosts: [] })
  expect(wishOfNeed(write(), at('readonly', ['/p/TODO.md']))).toEqual({ to: 'readwrite', hosts: [] })
  expect(wishOfNeed(write('/p/TODO.md'), at('readonly', ['/p/TODO.md']))).toBeNull()
  expect(wishOfNeed(write('/p/TODO.md', '/p/a'), at('readonly', ['/p/TODO.md']))).not.toBeNull()
})

test('a write outside of what a level names asks for the lowest that lets it, and for none where none does', () => {
  const scopes = {
    writableFiles: ['/p/TODO.md'],
    writableAt: { readwrite: ['/p/src'], network: ['/p/src', '/p/doc'] },
  }
  const asked = (path: string, level: 'readonly' | 'readwrite' | 'network') =>
    wishOfNeed(write(path), { ...at(level), scopes })?.to ?? null
  expect(asked('/p/src/a/b', 'readonly')).toBe('readwrite')
  expect(asked('/p/src/a/b', 'readwrite')).toBeNull()
  expect(asked('/p/srcs', 'readwrite')).toBe('full')
  expect(asked('/p/doc/a', 'readwrite')).toBe('network')
  const always = { ...scopes, writableAt: { ...scopes.writableAt, full: [] } }
  expect(wishOfNeed(write('/p/other'), { ...at('readwrite'), scopes: always })).toBeNull()
})

test('a host that is lacking is asked for, alone where only reading is allowed, and not where it is denied for good', () => {
  expect(wishOfNeed(reach('new.test:443', 'known.test:443'), at('readwrite'))).toEqual({
    to: 'network',
    hosts: ['new.test:443'],
  })
  expect(wishOfNeed(reach('new.test:443'), at('readonly'))).toEqual({
    to: 'readonly',
    hosts: ['new.test:443'],
  })
  expect(wishOfNeed(reach('never.test:443'), at('network'))).toBeNull()
  const open = { ...at('network'), network: { ...network, mode: 'open' as const } }
  expect(wishOfNeed(reach('taken.test:1', 'taken.test:2'), open)?.hosts).toEqual(['taken.test:1'])
})
