import { api, type Handlers } from '../../src/shared/api.ts'
import type { Changeset, ChangedFile } from '../../src/shared/changeset.ts'
import type { DispatchDetail } from '../../src/shared/dispatch.ts'
import { OrangeryError } from '../../src/shared/errors.ts'
import type { EventBody, LoggedEvent } from '../../src/shared/events.ts'
import type { DispatchId } from '../../src/shared/ids.ts'
import { capture } from './capture.ts'
import { base, hostile, result } from './project.ts'
import { boundaryDemo } from './boundary.ts'

/**
 * An engine made of canned answers, for screens a real one reaches only with agents, engines and hours: several
 * levels, requests, violations, hostile names. Everything that acts is tested against the real engine.
 */
export type Demo = { readonly handlers: Handlers; touch(id: string): void }

const root = '/home/ada/shop'
const at = (minutesAgo: number) => new Date(Date.now() - minutesAgo * 60_000).toISOString()
let serial = 0
const makeId = (minutesAgo: number) =>
  `${at(minutesAgo).replaceAll(/[-:T]/g, '').slice(0, 14)}-${(0xa1b0 + serial++).toString(16)}` as DispatchId

type Draft = Partial<DispatchDetail> & { readonly minutes: number; readonly seconds?: number }

function row(draft: Draft): DispatchDetail {
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

export async function makeDemo(dataDir: string): Promise<Demo> {
  const shop = await capture(root, base, result)
  const traps = await capture('/home/ada/traps', {}, hostile)
  const ignored: ChangedFile[] = Array.from({ length: 40 }, (_, n) => ({
    ...shop.files[0]!,
    path: `node_modules/left-pad-${n}/index.js`,
    change: 'added',
    ignored: true,
    protected: false,
    hunks: [],
  }))
  const changesets = new Map<string, Changeset>()
  const texts = new Map<string, string>()

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
      exit_code: null,
      error:
        'vm: no runtime that gives a virtual machine was found\nInstall qemu-system-x86, or choose another level.',
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

  const put = (
    owner: DispatchDetail,
    state: Changeset['state'],
    captured: Awaited<ReturnType<typeof capture>>,
    extra: ChangedFile[] = [],
  ) => {
    const files = [...captured.files, ...extra]
    const insertions = captured.files.reduce((sum, file) => sum + file.insertions, 0)
    const deletions = captured.files.reduce((sum, file) => sum + file.deletions, 0)
    changesets.set(owner.id, {
      id: owner.id,
      state,
      roots: [...owner.roots],
      revision: captured.revision,
      files,
      insertions,
      deletions,
      dropped:
        extra.length === 0
          ? []
          : [{ root, path: '.git/hooks/pre-commit', why: 'changes under .git never land' }],
      transitions: [{ at: owner.created_at, from: null, to: state, by: 'engine', why: 'the agent ended' }],
    })
    texts.set(owner.id, captured.text)
    owner.changeset = { id: owner.id, state, files: files.length, insertions, deletions }
  }
  put(review, 'review', shop, ignored)
  put(trapped, 'review', traps)
  const applied = rows.find((each) => each.name === 'Update the snapshots')
  if (applied) put(applied, 'applied', shop)
  const stopped = rows.find((each) => each.name === 'Rewrite the parser')
  if (stopped) put(stopped, 'abandoned', shop)

  const find = (id: string) => {
    const found = rows.find((each) => each.id.startsWith(id))
    if (found === undefined)
      throw new OrangeryError('dispatch.not_found', `${id}: there is no such dispatch`, { kind: 'not_found' })
    return found
  }
  const changesetOf = (id: string) => {
    const found = changesets.get(find(id).id)
    if (found === undefined)
      throw new OrangeryError('changeset.not_found', `${id}: it changed nothing`, { kind: 'not_found' })
    return found
  }
  const listeners = new Set<(id: string) => void>()
  const touch = (id: string) => listeners.forEach((listener) => listener(id))
  const end = (id: string, state: Changeset['state']) => {
    const changeset = { ...changesetOf(id), state }
    changesets.set(changeset.id, changeset)
    const owner = find(id)
    if (owner.changeset) owner.changeset = { ...owner.changeset, state }
    touch(owner.id)
    return changeset
  }
  const forever = (signal: AbortSignal) =>
    new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))

  const canned: Partial<Handlers> = {
    'host.info': async () => ({
      version: '0.1.0',
      data_dir: dataDir,
      platform: 'linux',
      home: '/home/ada',
      host: 'browser',
    }),
    'disk.use': async () => ({
      total: 0,
      logs: 0,
      logs_kept: null,
      shared: { records: 0, backups: 0, objects: 0, other: 0 },
      dispatches: [],
    }),
    'disk.keep_logs': async () => ({ removed: [] }),
    'dispatch.verify': async () => ({ ok: true, events: 0, problem: null }),
    'host.doctor': async () => ({
      platform: 'linux',
      kernel: '6.1.0-28-amd64',
      data_dir: '/home/ada/.local/share/orangery',
      levels: [
        {
          level: 0,
          name: 'bare-cli',
          available: true,
          driver: null,
          workspace: 'kernel-overlay',
          checks: [],
        },
        {
          level: 1,
          name: 'os-sandboxed',
          available: true,
          driver: 'bubblewrap 0.8.0',
          workspace: 'kernel-overlay',
          checks: [
            { name: 'bubblewrap', ok: true, detail: '0.8.0', fix: null },
            { name: 'user namespaces', ok: true, detail: 'allowed', fix: null },
            { name: 'overlay', ok: true, detail: 'the kernel mounts them unprivileged', fix: null },
          ],
        },
        {
          level: 2,
          name: 'container',
          available: true,
          driver: 'podman 4.3.1',
          workspace: 'volume',
          checks: [{ name: 'podman', ok: true, detail: '4.3.1, rootless', fix: null }],
        },
        {
          level: 3,
          name: 'vm',
          available: false,
          driver: null,
          workspace: null,
          checks: [
            {
              name: 'runtime',
              ok: false,
              detail: 'no runtime that gives a virtual machine',
              fix: 'apt install qemu-system-x86',
            },
          ],
        },
      ],
      limits: {
        memory: 'cgroup v2',
        cpus: 'cgroup v2',
        pids: 'cgroup v2',
        disk: 'watched',
        time: 'supervisor',
      },
    }),
    'host.directories': async ({ path }) => ({
      path,
      exists: true,
      entries: path === '/home/ada/' ? ['importer', 'shop', 'site', 'traps'] : ['src', 'test'],
    }),
    'agent.cards': async () =>
      [
        ['command', 'Command'],
        ['claude', 'Claude Code'],
        ['codex', 'Codex'],
        ['opencode', 'OpenCode'],
        ['gemini', 'Gemini CLI'],
      ].map(([id = '', name = '']) => ({
        id,
        name,
        description: '',
        command: [],
        protocol: 'terminal',
        sandboxLevel: 1,
        sandboxRequirements: { hosts: [], env: [], read: [], home: 'fresh' },
      })),
    'dispatch.preflight': async ({ roots, sandbox_spec }) => ({
      ok: !(sandbox_spec ?? '').includes('"vm"'),
      checks: [
        { name: 'roots', ok: true, detail: roots.join(', '), fix: null },
        {
          name: 'level 3',
          ok: !(sandbox_spec ?? '').includes('"vm"'),
          detail: 'no runtime that gives a virtual machine was found',
          fix: 'apt install qemu-system-x86, or choose another level.',
        },
        { name: 'disk', ok: true, detail: '84 GB free', fix: null },
      ],
    }),
    'dispatch.spawn': async ({ command, roots, name, agent, prompt }) => {
      const spawned = row({
        minutes: 0,
        status: 'running',
        command,
        roots,
        name: name ?? null,
        agent,
        prompt: prompt ?? null,
      })
      rows.unshift(spawned)
      touch(spawned.id)
      return { id: spawned.id }
    },
    'dispatch.list': async ({ limit }) => rows.slice(0, limit),
    'dispatch.get': async ({ id }) => find(id),
    'dispatch.kill': async ({ id }) => {
      const found = find(id)
      Object.assign(found, { status: 'cancelled', ended_at: at(0) })
      touch(found.id)
      return { id: found.id }
    },
    'dispatch.input': async () => ({}),
    'dispatch.resize': async () => ({}),
    'dispatch.events': async function* ({ id }, signal) {
      yield* eventsOf(find(id))
      await forever(signal)
    },
    'dispatch.output': async function* ({ id, from }, signal) {
      const bytes = Buffer.from(outputOf(find(id)))
      if (from < bytes.length) yield { offset: from, data: bytes.subarray(from).toString('base64') }
      await forever(signal)
    },
    'changeset.list': async () => rows.flatMap((each) => (each.changeset === null ? [] : [each.changeset])),
    'changeset.get': async ({ id }) => changesetOf(id),
    'changeset.diff': async ({ id }) => ({
      revision: changesetOf(id).revision,
      text: texts.get(find(id).id) ?? '',
      truncated: false,
    }),
    'changeset.decide': async ({ id, path, hunk, verdict }) => {
      const former = changesetOf(id)
      const files = former.files.map((file) => {
        if (file.path !== path) return file
        const hunks = file.hunks.map((each) =>
          hunk === undefined || each.id === hunk ? { ...each, decision: verdict } : each,
        )
        return { ...file, hunks, decision: hunk === undefined ? verdict : file.decision }
      })
      const next = { ...former, files }
      changesets.set(former.id, next)
      return next
    },
    'changeset.apply': async ({ id }) => {
      const changeset = end(id, 'applied')
      const applied = changeset.files.filter((file) => !file.protected && !file.ignored)
      return {
        id: changeset.id,
        state: 'applied',
        applied: applied.map(({ root, path }) => ({ root, path })),
        skipped: [],
      }
    },
    'changeset.conflicts': async ({ id }) => ({
      revision: changesetOf(id).revision,
      conflicts: [],
      merged: [],
    }),
    'changeset.restore': async ({ id }) => ({ id: find(id).id, state: end(id, 'review').state }),
    'changeset.undo': async ({ id }) => {
      const changeset = end(id, 'review')
      return {
        id: changeset.id,
        state: 'review',
        applied: changeset.files.map(({ root, path }) => ({ root, path })),
        skipped: [],
      }
    },
    'changeset.reject': async ({ id }) => ({ id: find(id).id, state: end(id, 'rejected').state }),
    'changeset.abandon': async ({ id }) => ({ id: find(id).id, state: end(id, 'abandoned').state }),
    ...boundaryDemo(find, () => rows.filter(({ status }) => status === 'running'), touch),
    changes: async function* (_input, signal) {
      const waiting: string[] = []
      let wake = () => {}
      const listener = (id: string) => {
        waiting.push(id)
        wake()
      }
      listeners.add(listener)
      signal.addEventListener('abort', () => wake())
      try {
        while (!signal.aborted) {
          if (waiting.length > 0) yield { ids: waiting.splice(0) }
          await new Promise<void>((resolve) => {
            wake = resolve
          })
        }
      } finally {
        listeners.delete(listener)
      }
    },
  }
  return { handlers: withTheRest(canned), touch }
}

function outputOf(of: DispatchDetail): string {
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

function eventsOf(of: DispatchDetail): LoggedEvent[] {
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

/** What the demo has no answer for says so, whatever the contract grows to. */
function withTheRest(canned: Partial<Handlers>): Handlers {
  const refuse = (name: string) => async () => {
    throw new OrangeryError('demo.no_answer', `${name}: the demo has no answer to this`, {
      kind: 'not_found',
    })
  }
  const rest = Object.keys(api).map((name) => [name, refuse(name)] as const)
  return { ...(Object.fromEntries(rest) as unknown as Handlers), ...canned }
}
