import type { DispatchDetail } from '../../src/shared/dispatch.ts'
import type { DispatchId } from '../../src/shared/ids.ts'

export const root = '/home/ada/shop'
export const at = (minutesAgo: number) => new Date(Date.now() - minutesAgo * 60_000).toISOString()
let serial = 0
const makeId = (minutesAgo: number) =>
  `${at(minutesAgo).replaceAll(/[-:T]/g, '').slice(0, 14)}-${(0xa1b0 + serial++).toString(16)}` as DispatchId

type Draft = Partial<DispatchDetail> & { readonly minutes: number; readonly seconds?: number }

export function row(draft: Draft): DispatchDetail {
  const { minutes, seconds = 74, ...over } = draft
  const running = over.status === 'running' || over.status === 'starting'
  return {
    id: makeId(minutes),
    parent_id: null,
    name: null,
    agent: 'command',
    role: null,
    phase: null,
    prompt: null,
    status: 'completed',
    sandbox: null,
    exit_code: running ? null : 0,
    error: null,
    created_at: at(minutes),
    started_at: at(minutes),
    ended_at: running ? null : at(minutes - seconds / 60),
    level: 1,
    boundary: 'readwrite',
    roots: [root],
    command: [],
    changeset: null,
    sandbox_spec: null,
    sandbox_effective: null,
    ...over,
  }
}

const effective = (over: object = {}) => ({
  tools_used: ['Read', 'Edit', 'Bash'],
  access_mode: 'workspace-write',
  turns_used: 14,
  commands_used: 31,
  violations: [],
  level: 1,
  driver: 'bubblewrap 0.8.0',
  workspace: 'kernel-overlay',
  boundary_history: [{ at: at(9), from: null, to: 'readwrite', by: 'policy', why: 'default' }],
  network: { allowed: [], denied: [] },
  resources: { wall_ms: 74_210, cpu_ms: 41_005, max_rss_mb: 412, disk_mb: 3.4 },
  declared_equals_actual: { ok: true, checks: [] },
  ...over,
})

/** One of everything: what runs, what waits, what failed, what never started. */
export function makeRows() {
  const review = row({
    minutes: 11,
    name: 'Make coupons work in the cart',
    agent: 'claude',
    prompt: 'Make coupons work in the cart',
    command: ['claude', '-p'],
    boundary: 'network',
    sandbox_spec: {
      access_mode: 'workspace-write',
      isolation: 'os',
      outputs: { mode: 'restricted', allow: ['api.anthropic.com:443'] },
      max_turns: 12,
      limits: { memory_mb: 2048, timeout_s: 900 },
    },
    sandbox_effective: effective({
      boundary_history: [
        { at: at(11), from: null, to: 'readwrite', by: 'policy', why: 'phase build' },
        { at: at(9), from: 'readwrite', to: 'network', by: 'ada', why: 'needs the model' },
      ],
      network: {
        allowed: [{ host: 'api.anthropic.com:443', connections: 18, bytes: 903_112 }],
        denied: [{ host: 'telemetry.example.com:443', connections: 3, why: 'not in the list' }],
      },
    }),
  })
  const trapped = row({
    minutes: 42,
    name: 'fix\u202Exif <b>bold</b>',
    command: ['sh', '-c', 'make traps'],
    roots: ['/home/ada/traps'],
  })
  const rows: DispatchDetail[] = [
    row({
      minutes: 2,
      status: 'running',
      name: 'Port the importer to streams',
      agent: 'codex',
      command: ['codex', 'exec'],
      level: 2,
      roots: ['/home/ada/importer'],
    }),
    row({ minutes: 1, status: 'starting', command: ['npm', 'run', 'build'], roots: ['/home/ada/site'] }),
    review,
    trapped,
    row({
      minutes: 95,
      seconds: 12,
      command: ['make', 'check'],
      status: 'failed',
      exit_code: 2,
      error: 'The command ended with code 2.',
    }),
    row({ minutes: 130, seconds: 3, name: 'Update the snapshots', command: ['npx', 'vitest', '-u'] }),
    row({
      minutes: 300,
      command: ['./train.sh'],
      status: 'preflight_failed',
      level: 3,
      sandbox_spec: { isolation: 'vm' },
      exit_code: null,
      error: 'preflight: level 3: no runtime that gives a virtual machine was found',
      started_at: null,
      ended_at: null,
    }),
    row({
      minutes: 1_600,
      name: 'Try the new bundler',
      command: ['npm', 'i'],
      status: 'cancelled',
      level: 0,
      boundary: 'full',
    }),
    row({
      minutes: 2_900,
      name: 'Rewrite the parser',
      agent: 'claude',
      status: 'interrupted',
      exit_code: null,
    }),
    row({ minutes: 9_000, name: 'Bump dependencies', agent: 'opencode', status: 'timeout', exit_code: 124 }),
  ]

  return { rows, review, trapped }
}
