import { expect, test } from 'vitest'
import type { EventBody } from '../../../shared/events.ts'
import type { Contract } from '../../base/contract.ts'
import { Observations, termsInLog, termsOf } from './effective.ts'

const contract: Contract = {
  level: 1,
  strategy: 'overlay',
  platform: null,
  outputs: { mode: 'none', allow: [], deny: [], pins: {}, always: [], readOnly: false, declared: false },
  software: null,
  boundary: 'readwrite',
  phase: null,
  roots: ['/p', '/q'],
  rootModes: { '/q': 'ro' },
  workingDir: null,
  hide: [],
  writableFiles: [],
  limits: {},
  onLimit: 'record',
  toolsAllowed: null,
  toolsDenied: [],
  maxTurns: null,
  maxCommands: null,
}

const logged: readonly (readonly [string, EventBody])[] = [
  [
    '2026-01-28T12:05:00.000Z',
    { type: 'DispatchStarting', ...termsOf(contract), command: ['x'], roots: ['/p'] },
  ],
  [
    '2026-01-28T12:05:00.000Z',
    { type: 'WorkspaceReady', strategy: 'overlay', detail: '', driver: 'fuse-overlayfs' },
  ],
  [
    '2026-01-28T12:05:01.000Z',
    { type: 'SandboxReady', driver: 'bubblewrap 0.8.0', plan: '', limits_by: { pids: 'rlimit' } },
  ],
  ['2026-01-28T12:05:01.000Z', { type: 'SelfProbe', result: { ok: true, checks: [] } }],
  ['2026-01-28T12:05:02.000Z', { type: 'ToolCall', id: '1', tool: 'Bash', title: 'ls' }],
  ['2026-01-28T12:05:03.000Z', { type: 'AgentMessage', role: 'agent', text: 'done' }],
  [
    '2026-01-28T12:05:04.000Z',
    { type: 'BoundaryEscalated', from: 'readwrite', to: 'network', by: 'you', why: 'tests need it' },
  ],
  [
    '2026-01-28T12:05:04.500Z',
    { type: 'BoundaryKept', level: 'network', wished: 'readonly', by: 'you', why: 'sh (7) with a file' },
  ],
  ['2026-01-28T12:05:05.000Z', { type: 'EgressDecided', host: 'a.test', port: 443, allowed: true, why: '' }],
  [
    '2026-01-28T12:05:06.000Z',
    { type: 'EgressDecided', host: 'b.test', port: 80, allowed: false, why: 'no', count: 7 },
  ],
  [
    '2026-01-28T12:05:07.000Z',
    {
      type: 'Violated',
      violation: { kind: 'pids', at: '2026-01-28T12:05:07.000Z', detail: 'x', certain: true },
    },
  ],
]

test('an event log alone proves who did what and when, with the times of the log and not of the reader', () => {
  const first = logged[0]?.[1] as Extract<EventBody, { type: 'DispatchStarting' }>
  const seen = new Observations(termsInLog(first) ?? expect.fail('the log does not say'))
  for (const [at, event] of logged) seen.observe(event, at)
  expect(seen.effective()).toEqual({
    tools_used: ['Bash'],
    access_mode: 'workspace-write',
    turns_used: 1,
    commands_used: 1,
    violations: [{ kind: 'pids', at: '2026-01-28T12:05:07.000Z', detail: 'x', certain: true }],
    level: 1,
    driver: 'bubblewrap 0.8.0',
    workspace: 'overlay',
    workspace_driver: 'fuse-overlayfs',
    root_modes: { '/q': 'ro' },
    limits_by: { pids: 'rlimit' },
    boundary_history: [
      { at: '2026-01-28T12:05:00.000Z', from: null, to: 'readwrite', by: 'spawn', why: 'as requested' },
      { at: '2026-01-28T12:05:04.000Z', from: 'readwrite', to: 'network', by: 'you', why: 'tests need it' },
      {
        at: '2026-01-28T12:05:04.500Z',
        from: 'network',
        to: 'network',
        by: 'you',
        why: 'readonly did not take: sh (7) with a file',
      },
    ],
    network: {
      allowed: [{ host: 'a.test', connections: 1, bytes: null }],
      denied: [{ host: 'b.test', connections: 7, why: 'no' }],
    },
    resources: { wall_ms: 7000, cpu_ms: null, max_rss_mb: null, disk_mb: null },
    declared_equals_actual: { ok: true, checks: [] },
  })
})

test('what was counted against the limit of the disk explains the end, however little is left', () => {
  const disk = (left: number | null, counted: { disk_mb?: number }) => {
    const seen = new Observations(termsOf(contract))
    seen.ended({
      exitCode: 137,
      signal: 'SIGKILL',
      lost: null,
      unstartable: false,
      likelyLimits: [],
      limits: ['disk'],
      resources: { wall_ms: 5, cpu_ms: 4, max_rss_mb: 3, ...counted },
    })
    seen.diskMb = left
    return seen.effective().resources.disk_mb
  }
  expect(disk(0, { disk_mb: 20.049 })).toBe(20)
  expect(disk(30, { disk_mb: 20.049 })).toBe(30)
  expect(disk(0.5, {})).toBe(0.5)
  expect(disk(null, { disk_mb: 20 })).toBeNull()
})

test('of a supervisor that vanished the log sums up the network as the broker would have: by host, with the bytes it told of, and the last reason', () => {
  const seen = new Observations(termsOf(contract))
  const decided = (port: number, count?: number) =>
    ({
      type: 'EgressDecided',
      host: 'a.test',
      port,
      allowed: true,
      why: '',
      ...(count && { count }),
    }) as const
  const denied = { type: 'EgressDecided', host: 'b.test', port: 80, allowed: false } as const
  const hosts = [{ host: 'a.test', connections: 3, bytes: 50_003_652 }]
  const events: EventBody[] = [
    decided(80),
    decided(80),
    decided(443),
    { type: 'EgressCarried', hosts: [{ host: 'a.test', connections: 1, bytes: 7 }] },
    { type: 'EgressCarried', hosts },
    { ...denied, why: 'not in the list of allowed hosts' },
    { ...denied, port: 443, why: 'a person took it back' },
  ]
  for (const event of events) seen.observe(event)
  expect(seen.effective().network).toEqual({
    allowed: hosts,
    denied: [{ host: 'b.test', connections: 2, why: 'a person took it back' }],
  })
})

test('what the broker and the sandbox measured goes before what the log suggests', () => {
  const seen = new Observations(termsOf(contract))
  for (const [at, event] of logged) seen.observe(event, at)
  seen.network = { allowed: [{ host: 'a.test:443', connections: 1, bytes: 99 }], denied: [] }
  seen.ended({
    exitCode: 0,
    signal: null,
    lost: null,
    unstartable: false,
    likelyLimits: [],
    limits: [],
    resources: { wall_ms: 5, cpu_ms: 4, max_rss_mb: 3 },
  })
  expect(seen.effective()).toMatchObject({
    network: { allowed: [{ bytes: 99 }], denied: [] },
    resources: { wall_ms: 5, cpu_ms: 4, max_rss_mb: 3 },
  })
})

test('the record says which bounds held, and nothing where there was none', () => {
  expect(new Observations(termsOf(contract)).effective()).not.toHaveProperty('ceiling')
  const bound = {
    ...contract,
    maxTurns: 0,
    toolsAllowed: [],
    limits: { timeout_s: 60 },
    onLimit: 'stop' as const,
  }
  expect(new Observations(termsOf(bound)).effective().ceiling).toEqual({
    tools_allowed: [],
    max_turns: 0,
    on_limit: 'stop',
    limits: { timeout_s: 60 },
  })
})

test('the record names the widest file access there was, also of an agent that was narrowed before its end', () => {
  const seen = new Observations(termsOf(contract))
  for (const [from, to] of [
    ['readwrite', 'full'],
    ['full', 'readonly'],
  ] as const) {
    seen.observe({ type: 'BoundaryEscalated', from, to, by: 'you', why: 'x' })
  }
  expect(seen.effective().access_mode).toBe('full')
})

test('a limit that was reached is one violation, certain where anybody is, and other denials stay as many as they are', () => {
  const at = '2026-01-28T12:05:07.000Z'
  const told = (kind: string, detail: string, certain: boolean): EventBody => ({
    type: 'Violated',
    violation: { kind, at, detail, certain },
  })
  const details = (...events: readonly EventBody[]) => {
    const seen = new Observations(termsOf(contract))
    for (const event of events) seen.observe(event, at)
    return seen.effective().violations.map(({ detail }) => detail)
  }
  const printed = [told('pids', 'cannot fork', false), told('write_denied', 'x', false)]
  expect(details(...printed, told('pids', 'reached', true))).toEqual(['reached', 'x'])
  expect(details(...printed, told('pids', 'likely reached', false))).toEqual(['cannot fork', 'x'])
  expect(details(told('pids', 'reached', true), ...printed)).toEqual(['reached', 'x'])
  expect(details(...printed, told('write_denied', 'y', false))).toEqual(['cannot fork', 'x', 'y'])
  expect(details(told('memory', 'a', true), told('pids', 'b', true))).toEqual(['a', 'b'])
})
