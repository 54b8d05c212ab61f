import { expect, test } from 'vitest'
import type { EffectiveConfig } from '../../shared/config.ts'
import { idleSandboxes, type SandboxEntry } from './idleSandboxes.ts'
import { settingsOf } from './settings.ts'

test('every value is there with where it came from, and what somebody set comes first', () => {
  const config = {
    sandboxBoundaries: { plan: 'readonly' },
    sandboxMaximumBoundary: 'network',
    sandboxLevels: { network: { hosts: null, tools: { allow: ['Read'], deny: [] } } },
    agentForbiddenTools: [],
    provenance: {
      'sandboxBoundaries.plan': [{ source: 'default', file: null, line: null }],
      'sandboxLevels.network.hosts': [{ source: 'default', file: null, line: null }],
      'sandboxLevels.network.tools': [{ source: 'project', file: '/p/.orangery.json', line: 3 }],
      sandboxMaximumBoundary: [{ source: 'user', file: '/u/config.json', line: 2 }],
      agentForbiddenTools: [{ source: 'default', file: null, line: null }],
    },
  } as unknown as EffectiveConfig
  expect(settingsOf(config).map(({ key, value, isSet }) => [key, value, isSet])).toEqual([
    ['sandboxLevels.network.tools', 'allow: Read', true],
    ['sandboxMaximumBoundary', 'network', true],
    ['sandboxBoundaries.plan', 'readonly', false],
    ['sandboxLevels.network.hosts', 'not set', false],
    ['agentForbiddenTools', 'none', false],
  ])
})

test('a sandbox is idle while it stands and nothing runs in it', () => {
  const entry = (id: string, over: object = {}, broken = false, running = false) =>
    ({
      id,
      broken,
      running,
      meta: { outcome: null, strategy: 'worktree', status: 'starting', ...over },
    }) as unknown as SandboxEntry
  const entries = [
    entry('idle'),
    entry('runs', {}, false, true),
    entry('gone', { outcome: 'discarded' }),
    entry('other', { strategy: 'overlay' }),
    entry('done', { status: 'completed' }),
    entry('broken', {}, true),
  ]
  const found = idleSandboxes(entries)
  expect(found.map(({ id }) => id)).toEqual(['idle', 'done'])
})
