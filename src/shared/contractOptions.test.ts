import { expect, test } from 'vitest'
import { contractOfOptions } from './contractOptions.ts'
import { OrangeryError } from './errors.ts'
import { hostCovers, parseHostPattern } from './hosts.ts'
import { sandboxSpecSchema } from './spec.ts'

test('no contract option amounts to no spec', () => {
  expect(contractOfOptions({})).toBeNull()
  expect(contractOfOptions({ allowHost: [] })).toBeNull()
})

test('every contract option amounts to the field of the spec it stands for', () => {
  const spec = contractOfOptions({
    level: 'container',
    isolation: 'container',
    changeset: 'clone',
    platform: 'linux',
    allowHost: ['Api.Example.com:443', '*.example.org', 'db.test:5432=127.0.0.1:5433'],
    boundary: 'network',
    rootMode: ['/a=b=ro', '/c=hidden'],
    software: 'node:24',
    memoryMb: '512',
    cpus: '1.5',
    pids: 64,
    diskMb: '100',
    timeoutS: '30',
  })
  expect(spec).toEqual({
    changeset: 'clone',
    platform: 'linux',
    isolation: 'container',
    outputs: {
      mode: 'restricted',
      allow: ['api.example.com:443', '*.example.org', 'db.test:5432'],
      pins: { 'db.test:5432': '127.0.0.1:5433' },
    },
    software: 'node:24',
    boundary: 'network',
    root_modes: { '/a=b': 'ro', '/c': 'hidden' },
    limits: { cpus: 1.5, memory_mb: 512, pids: 64, disk_mb: 100, timeout_s: 30 },
  })
  expect(sandboxSpecSchema.safeParse(spec).success).toBe(true)
})

test.each([
  [{ level: '4' }, 'usage'],
  [{ level: 0, isolation: 'os' }, 'input'],
  [{ boundary: 'root' }, 'usage'],
  [{ memoryMb: '-1' }, 'usage'],
  [{ memoryMb: '1e3' }, 'usage'],
  [{ pids: '1.5' }, 'usage'],
  [{ rootMode: ['/a'] }, 'usage'],
  [{ rootMode: ['/a=none'] }, 'usage'],
  [{ rootMode: ['/a=ro', '/a=rw'] }, 'usage'],
  [{ outputs: 'none', allowHost: ['a.test'] }, 'input'],
  [{ allowHost: ['a.test/path'] }, 'usage'],
  [{ allowHost: ['a.test=evil.test:80'] }, 'usage'],
  [{ allowHost: ['a.test=localhost:80'] }, 'usage'],
  [{ allowHost: ['*.a.test=127.0.0.1:80'] }, 'usage'],
  [{ allowHost: ['a.test=999.0.0.1:80'] }, 'usage'],
] as const)('%j is refused as %s', (options, kind) => {
  const error = (() => {
    try {
      return contractOfOptions(options)
    } catch (thrown) {
      return thrown
    }
  })()
  expect(error).toBeInstanceOf(OrangeryError)
  expect((error as OrangeryError).kind).toBe(kind)
})

test.each([
  ['*.example.com', 'a.example.com', true],
  ['*.example.com', 'a.b.example.com:443', true],
  ['*.example.com', 'example.com', false],
  ['*.example.com', 'notexample.com', false],
  ['*.example.com', 'example.com.evil.net', false],
  ['example.com', 'EXAMPLE.com.', true],
  ['example.com:443', 'example.com', false],
  ['example.com:443', 'example.com:80', false],
  ['example.com', 'example.com:80', true],
  ['a.example.com', '*.example.com', false],
  ['*.example.com', '*.a.example.com', true],
])('the pattern %s covers %s: %s', (outer, inner, covers) => {
  expect(hostCovers(parseHostPattern(outer)!, parseHostPattern(inner)!)).toBe(covers)
})

test.each([
  '',
  'a b',
  'a.test:0',
  'a.test:70000',
  '-a.test',
  'a..test',
  'a*.test',
  '*a.test',
  'a.test:80:80',
  '*:443',
  '[',
])('%j is no host pattern', (text) => {
  expect(parseHostPattern(text)).toBeUndefined()
})
