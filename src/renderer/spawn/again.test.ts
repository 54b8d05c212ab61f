import { expect, test } from 'vitest'
import type { DispatchDetail, DispatchRow } from '../../shared/dispatch.ts'
import { formOf, recentCommands, typedLine } from './again.ts'
import { fill, terminalLine } from './form.ts'

const detail = (over: Partial<DispatchDetail>) =>
  ({
    agent: 'command',
    command: ['make'],
    roots: ['/projects/shop'],
    prompt: null,
    name: null,
    ...over,
  }) as DispatchDetail

test('asking once more asks for the same contract, fields of other programs included', () => {
  const spec = {
    isolation: 'vm',
    boundary: 'readwrite',
    tools_denied: ['WebFetch'],
    outputs: {
      mode: 'restricted',
      allow: ['db.test:5432', '*.example.org'],
      pins: { 'db.test:5432': '127.0.0.1:5432' },
    },
    limits: { memory_mb: 512, pids: 64 },
    hide: ['.env*'],
    root_modes: { '/projects/shop': 'ro' },
    house_rule: { kept: true },
  }
  const again = fill(formOf(detail({ sandbox_spec: spec })))
  expect(again.ok && JSON.parse(again.input.sandbox_spec ?? '')).toEqual(spec)
  const lower = formOf(detail({ sandbox_spec: spec }), 1)
  expect(lower).toMatchObject({ memoryMb: '512', pids: '64' })
  const filled = fill(lower)
  expect(filled.ok && JSON.parse(filled.input.sandbox_spec ?? '')).toEqual({ ...spec, isolation: undefined })
  expect(terminalLine(lower)).toContain('--sandbox-spec')
  const open = { outputs: { mode: 'open', allow: [], deny: ['x.example'] } }
  const wide = fill(formOf(detail({ sandbox_spec: open })))
  expect(wide.ok && JSON.parse(wide.input.sandbox_spec ?? '')).toEqual(open)
})

test('a dispatch without a contract is asked for without one', () => {
  const again = fill(formOf(detail({ sandbox_spec: null })))
  expect(again).toEqual({
    ok: true,
    input: { agent: 'command', command: ['make'], roots: ['/projects/shop'] },
  })
})

test('a command is offered as it was typed, those of the folder first, each once', () => {
  expect(typedLine(['sh', '-c', 'make && make check'])).toBe('make && make check')
  expect(typedLine(['sh', '-c', 'make'])).toBe('sh -c make')
  const row = (command: string[], folder: string) =>
    ({ agent: 'command', command, roots: [folder] }) as unknown as DispatchRow
  const rows = [
    row(['make'], '/b'),
    row(['npm', 'test'], '/a'),
    row(['npm', 'test'], '/a'),
    row(['sh', '-c', 'a\nb'], '/a'),
  ]
  expect(recentCommands(rows, '/a')).toEqual(['npm test', 'make'])
})
