import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { sandboxEffectiveSchema } from './effective.ts'
import { sandboxSpecSchema } from './spec.ts'
import { compareSandbox, type ComparedField } from './compare.ts'
import { comparisonLines } from './comparisonLines.ts'

function compare(
  spec: unknown,
  effective: unknown,
  sandbox: string | null = null,
): Map<string, ComparedField> {
  const fields = compareSandbox({ sandbox, sandbox_spec: spec, sandbox_effective: effective })
  return new Map(fields.map((field) => [field.field, field]))
}

test('a run that kept to its spec shows both sides and neither difference nor violation', () => {
  const fields = compare(
    { tools_allowed: ['Read', 'Bash'], access_mode: 'workspace-write', max_turns: 50, isolation: 'os' },
    { tools_used: ['Read'], access_mode: 'workspace-write', turns_used: 23, level: 1, violations: [] },
  )
  expect(fields.get('access_mode')).toMatchObject({
    requested: 'workspace-write',
    effective: 'workspace-write',
  })
  expect(fields.get('max_turns')).toMatchObject({ requested: 'at most 50', effective: '23 used' })
  expect(fields.get('level')).toMatchObject({ requested: '1 os-sandboxed', effective: '1 os-sandboxed' })
  expect([...fields.values()].filter((field) => field.differs || field.violation !== null)).toEqual([])
})

test('what another program left that is no object is shown as it is', () => {
  const fields = compare(['Read', 'Bash'], 'ran unsandboxed')
  expect(fields.get('sandbox_spec')).toMatchObject({ requested: '["Read","Bash"]', effective: null })
  expect(fields.get('sandbox_effective')).toMatchObject({ effective: '"ran unsandboxed"' })
})

test('bounds of the parent that held are shown where nobody asked, and marked where something else was asked', () => {
  const ceiling = {
    tools_allowed: ['Read'],
    tools_denied: ['Bash'],
    max_turns: 5,
    on_limit: 'stop',
    limits: { timeout_s: 60, pids: 9 },
  }
  const effective = { tools_used: ['Read', 'Bash'], turns_used: 6, resources: { wall_ms: 1000 }, ceiling }
  const inherited = compare(null, effective)
  expect(inherited.get('max_turns')).toMatchObject({
    requested: null,
    effective: '6 used; at most 5',
    violation: '6 turns where 5 were allowed',
  })
  expect(inherited.get('limits.timeout_s')).toMatchObject({ requested: null, effective: '1 s; at most 60 s' })
  expect(inherited.get('limits.pids')).toMatchObject({ effective: 'at most 9', differs: false })
  expect(inherited.get('tools_allowed')?.violation).toContain('Bash')
  expect(inherited.get('tools_denied')?.effective).toBe('used: Bash; denied: Bash')
  expect(inherited.get('on_limit')?.effective).toBe('stop')
  const asked = compare({ max_turns: 9, limits: { timeout_s: 61, pids: 9 } }, { turns_used: 1, ceiling })
  expect(asked.get('max_turns')).toMatchObject({ requested: 'at most 9', differs: true, violation: null })
  expect(asked.get('limits.timeout_s')).toMatchObject({ requested: 'at most 61 s', differs: true })
  // The control: what held as it was asked is not marked.
  expect(asked.get('limits.pids')).toMatchObject({ requested: 'at most 9', effective: null, differs: false })
})

test('a tool that was not allowed, or was denied, is a violation named by its tool', () => {
  const fields = compare(
    { tools_allowed: ['Read'], tools_denied: ['WebFetch'] },
    { tools_used: ['Read', 'Bash', 'WebFetch'] },
  )
  expect(fields.get('tools_allowed')?.violation).toContain('Bash, WebFetch')
  expect(fields.get('tools_denied')?.violation).toContain('WebFetch')
})

test('more turns and commands than allowed are violations', () => {
  const fields = compare({ max_turns: 2, max_commands: 0 }, { turns_used: 3, commands_used: 1 })
  expect(fields.get('max_turns')?.violation).toBe('3 turns where 2 were allowed')
  expect(fields.get('max_commands')?.violation).toBe('1 commands where 0 were allowed')
})

test('a weaker level than asked for is a violation, a stronger one a difference', () => {
  expect(compare({ isolation: 'container' }, { level: 1 }).get('level')?.violation).toContain('os-sandboxed')
  expect(compare({ isolation: 'os' }, { level: 2 }).get('level')).toMatchObject({
    differs: true,
    violation: null,
  })
})

test('wider access than asked for is a violation unless the history says who widened it', () => {
  const widened = {
    access_mode: 'workspace-write',
    boundary_history: [{ to: 'readonly' }, { to: 'readwrite' }],
  }
  expect(
    compare({ access_mode: 'read-only' }, { access_mode: 'full' }).get('access_mode')?.violation,
  ).toBeTruthy()
  expect(compare({ access_mode: 'read-only' }, widened).get('access_mode')).toMatchObject({
    differs: true,
    violation: null,
  })
  expect(compare({ boundary: 'readonly' }, widened).get('boundary')).toMatchObject({
    requested: 'readonly',
    effective: 'readonly → readwrite',
    differs: true,
  })
})

test('the access mode of the spec supersedes the legacy string, which counts where there is no spec', () => {
  expect(compare({ access_mode: 'read-only' }, null, 'full').get('access_mode')?.requested).toBe('read-only')
  expect(compare({ boundary: 'network' }, null, 'full').get('access_mode')?.requested).toBe('workspace-write')
  expect(compare(null, null, 'workspace-write').get('access_mode')?.requested).toBe('workspace-write')
})

test('a changeset that was asked for and not made is a violation, whatever driver carried it otherwise', () => {
  expect(compare({ changeset: 'overlay' }, { workspace: 'direct' }).get('changeset')?.violation).toBeTruthy()
  for (const workspace of ['overlay (kernel-overlay)', 'kernel-overlay', 'fuse-overlayfs']) {
    expect(compare({ changeset: 'overlay' }, { workspace }).get('changeset')?.differs).toBe(false)
  }
  expect(compare({ changeset: 'worktree' }, { workspace: 'kernel-overlay' }).get('changeset')?.differs).toBe(
    false,
  )
  expect(compare({ changeset: 'overlay' }, { workspace: 'plain-copy' }).get('changeset')).toMatchObject({
    differs: true,
    violation: null,
  })
})

test('a host that was allowed and never answered is not said to be reached', () => {
  const allowed = [
    { host: 'api.test', connections: 2, bytes: 1, unreachable: 1 },
    { host: 'gone.test', connections: 0, bytes: 0, unreachable: 3 },
  ]
  const outputs = (list: typeof allowed) =>
    compare(
      { outputs: { mode: 'restricted', allow: ['*.test'] } },
      { network: { allowed: list, denied: [] } },
    ).get('outputs')
  expect(outputs(allowed)).toMatchObject({
    effective: 'reached api.test (2); no answer from gone.test',
    differs: false,
  })
})

test('refused hosts are a difference, and recorded violations and failed probes are lines of their own', () => {
  const fields = compare(
    { outputs: { mode: 'restricted', allow: ['api.test'] } },
    {
      network: {
        allowed: [{ host: 'api.test', connections: 2, bytes: 1 }],
        denied: [{ host: 'evil.test', connections: 3, why: 'not allowed' }],
      },
      violations: [{ kind: 'file', at: '', detail: 'wrote /etc/passwd', certain: false }],
      declared_equals_actual: {
        ok: false,
        checks: [{ name: 'seccomp', declared: 'on', actual: 'off', ok: false }],
      },
    },
  )
  expect(fields.get('outputs')).toMatchObject({
    requested: 'restricted: api.test',
    effective: 'reached api.test (2); refused evil.test (3)',
    differs: true,
    violation: null,
  })
  expect(fields.get('violation: file')).toMatchObject({
    effective: 'wrote /etc/passwd (likely)',
    violation: 'wrote /etc/passwd (likely)',
    differs: true,
  })
  expect(fields.get('declared: seccomp')).toMatchObject({ requested: 'on', effective: 'off' })
})

test('what a parent added to a list or to the modes of folders is told as a difference', () => {
  const held = (root_modes: object, hide: string[]) => ({ root_modes, ceiling: { hide } })
  const asked = { root_modes: { '/p/a/': 'ro' }, hide: ['secret'] }
  const more = compare(asked, held({ '/p/a': 'ro', '/p/b': 'ro' }, ['secret', '.env*']))
  expect(more.get('root_modes')?.differs).toBe(true)
  expect(more.get('hide')).toMatchObject({ effective: 'secret, .env*', differs: true })
  // The control: the same, in another spelling.
  const equal = compare(asked, held({ '/p/a': 'ro' }, ['secret']))
  expect([equal.get('root_modes')?.differs, equal.get('hide')?.differs]).toEqual([false, false])
  expect(compare(asked, held({ '/p/a': 'hidden' }, ['secret'])).get('root_modes')?.differs).toBe(true)
})

test('fields of the spec that nobody knows are shown all the same', () => {
  expect(compare({ later: { x: 1 } }, null).get('later')?.requested).toBe('{"x":1}')
})

test('nothing given and nothing happened is nothing to compare', () => {
  expect(compareSandbox({ sandbox: null, sandbox_spec: null, sandbox_effective: null })).toEqual([])
})

test('whatever JSON an older program stored, comparing it shows something and never fails', () => {
  const named = { sandbox: null, sandbox_spec: { tools_denied: [{ toString: null }] }, sandbox_effective: [] }
  expect(comparisonLines(compareSandbox(named)).join()).toContain('toString')
  const anything = (names: readonly string[]) =>
    fc.oneof(
      fc.jsonValue(),
      fc.record(Object.fromEntries(names.map((name) => [name, fc.jsonValue()])), { requiredKeys: [] }),
    )
  const specs = anything(Object.keys(sandboxSpecSchema.shape))
  const effectives = anything(Object.keys(sandboxEffectiveSchema.shape))
  fc.assert(
    fc.property(specs, effectives, (spec, effective) => {
      const fields = compareSandbox({ sandbox: null, sandbox_spec: spec, sandbox_effective: effective })
      expect(comparisonLines(fields)).toHaveLength(fields.length + 1)
    }),
  )
})

test.each([
  ['danger-full-access', 'full'],
  ['readonly', 'read-only'],
  ['network', 'workspace-write'],
  ['', 'workspace-write'],
])('the legacy word "%s" is what it always meant, no violation', (sandbox, mode) => {
  const [field] = compareSandbox({ sandbox, sandbox_spec: null, sandbox_effective: { access_mode: mode } })
  expect(field).toMatchObject({ field: 'access_mode', effective: mode, differs: false, violation: null })
})

test('the text form marks differences and violations and lets no control character through', () => {
  const lines = comparisonLines(
    compareSandbox({
      sandbox: null,
      sandbox_spec: { tools_allowed: ['Read'], isolation: 'os' },
      sandbox_effective: { tools_used: ['\u001b[2J\nevil'], level: 2 },
    }),
  )
  expect(lines.find((line) => line.includes('tools_allowed'))).toMatch(/^! /)
  expect(lines.find((line) => line.includes('level'))).toMatch(/^≠ /)
  expect(lines.join('')).not.toMatch(/\p{Cc}/u)
})

test('what nothing held at level 0 is said to be not enforced', () => {
  const history = [{ to: 'readonly' }]
  const at = (level: number) => compare({}, { level, access_mode: 'read-only', boundary_history: history })
  expect(at(0).get('boundary')?.effective).toBe('readonly, not enforced')
  expect(at(0).get('access_mode')?.effective).toBe('read-only, not enforced')
  expect(at(1).get('boundary')?.effective).toBe('readonly')
})
