import type { DispatchDetail } from '../../src/shared/dispatch.ts'
import type { EventBody, LoggedEvent } from '../../src/shared/events.ts'

export function outputOf(of: DispatchDetail): string {
  const lines = [
    '\u001b[2m$ npm test\u001b[0m',
    '',
    '\u001b[1m\u001b[46m RUN \u001b[0m \u001b[36mv5.1.0\u001b[0m \u001b[2m/home/ada/shop\u001b[0m',
    '',
    ' \u001b[32m✓\u001b[0m test/cart.test.ts \u001b[2m(3 tests)\u001b[0m \u001b[32m8 ms\u001b[0m',
    ' \u001b[32m✓\u001b[0m test/money.test.ts \u001b[2m(2 tests)\u001b[0m \u001b[32m3 ms\u001b[0m',
    ' \u001b[31m✗\u001b[0m test/stock.test.ts \u001b[2m(4 tests | \u001b[0m\u001b[31m1 failed\u001b[0m\u001b[2m)\u001b[0m \u001b[33m1204 ms\u001b[0m',
    '   \u001b[31mAssertionError: expected 3 to be 4\u001b[0m',
    '',
    '\u001b[2m Test Files \u001b[0m \u001b[1m\u001b[31m1 failed\u001b[0m | \u001b[32m2 passed\u001b[0m',
    '\u001b[2m      Tests \u001b[0m \u001b[1m\u001b[31m1 failed\u001b[0m | \u001b[32m8 passed\u001b[0m',
    '\u001b[2m   Duration \u001b[0m 1.62s',
    '',
  ]
  const traps = [
    '\u001b]52;c;ZXZpbA==\u0007clipboard',
    '\u001b]8;;https://evil.example\u0007a link?\u001b]8;;\u0007',
    'mirrored: \u202Eelif.txt',
    '<img src=x onerror=alert(1)>',
    '',
  ]
  return [...lines, ...(of.roots[0] === '/home/ada/traps' ? traps : [])].join('\r\n')
}

export function eventsOf(of: DispatchDetail): LoggedEvent[] {
  const events: EventBody[] = [
    { type: 'DispatchStarting', level: of.level ?? 1, command: of.command, roots: of.roots },
    { type: 'WorkspaceReady', strategy: 'overlay', detail: 'kernel overlay over 1 folder' },
    { type: 'SandboxReady', driver: 'bubblewrap 0.8.0', plan: '' },
    {
      type: 'SelfProbe',
      result: { ok: true, checks: [{ name: 'network', declared: 'none', actual: 'none', ok: true }] },
    },
    { type: 'AgentStarted', pid: 48_112 },
    { type: 'AgentMessage', role: 'agent', text: 'I will look at the cart first.' },
    { type: 'ToolCall', id: '1', tool: 'Read', title: 'src/cart.ts' },
    {
      type: 'BoundaryRequested',
      request: 'r1',
      to: 'network',
      by: 'claude',
      why: 'needs the model',
      hosts: ['api.anthropic.com:443'],
    },
    { type: 'BoundaryEscalated', from: 'readwrite', to: 'network', by: 'ada', why: 'needs the model' },
    {
      type: 'EgressDecided',
      host: 'telemetry.example.com',
      port: 443,
      allowed: false,
      why: 'not in the list',
    },
    { type: 'ToolCall', id: '2', tool: 'Edit', title: 'src/cart.ts' },
    { type: 'ChangesetCaptured', revision: '5f0c3a9be1d4', files: 9 },
    { type: 'AgentEnded', exit_code: 0, signal: null },
    { type: 'DispatchEnded', status: 'completed', error: null },
  ]
  const shown = of.status === 'running' ? events.slice(0, 8) : events
  return shown.map((event, at) => ({
    seq: at + 1,
    at: new Date(Date.parse(of.created_at) + at * 1700).toISOString(),
    prev: '',
    hash: '',
    event,
  }))
}
