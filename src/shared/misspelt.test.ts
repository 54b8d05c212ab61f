import { expect, test } from 'vitest'
import { misspeltFields } from './misspelt.ts'
import { parseSandboxSpec } from './spec.ts'

const misspelt = (spec: unknown) => misspeltFields(parseSandboxSpec(JSON.stringify(spec)))

test('a field that is nearly one that is acted on is named with the one that is meant', () => {
  for (const name of ['readonly', 'readOnly', 'read-only', 'READ_ONLY', 'readony'])
    expect(misspelt({ outputs: { [name]: true } }), name).toEqual([
      `outputs.${name} of the spec is not known, and nothing acts on it: is outputs.read_only meant?`,
    ])
  expect(misspelt({ Boundary: 'full', limits: { memoryMb: 1 }, outputs: { allows: [] } })).toMatchObject([
    expect.stringContaining('is boundary meant'),
    expect.stringContaining('is outputs.allow meant'),
    expect.stringContaining('is limits.memory_mb meant'),
  ])
})

test('a field that stands in the wrong place is named with the place where it would be acted on', () => {
  expect(
    misspelt({ timeout_s: 5, Memory_MB: 1, outputs: { hide: [] }, limits: { on_limit: 'stop' } }),
  ).toEqual([
    'timeout_s of the spec is not known, and nothing acts on it: is limits.timeout_s meant?',
    'Memory_MB of the spec is not known, and nothing acts on it: is limits.memory_mb meant?',
    'outputs.hide of the spec is not known, and nothing acts on it: is hide meant?',
    'limits.on_limit of the spec is not known, and nothing acts on it: is on_limit meant?',
  ])
})

test('what would be acted on elsewhere is named in a group that nobody knows, too', () => {
  expect(misspelt({ filesystem: { hide: ['*.env'], depth: 1 }, files: {} })).toEqual([
    'filesystem.hide of the spec is not known, and nothing acts on it: is hide meant?',
  ])
})

test('what is known, and what a later release may know, is nobody’s slip', () => {
  const spec = {
    outputs: { mode: 'open', read_only: true, deny: [], quota: 1 },
    x_team: 'a',
    owner: {},
    hide: [],
  }
  expect(misspelt(spec)).toEqual([])
  expect(misspeltFields(null)).toEqual([])
})
