import { describe, expect, test } from 'vitest'
import { agentCardSchema, type AgentCard } from '../../shared/card.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { SandboxSpec } from '../../shared/spec.ts'
import type { Contract } from '../base/contract.ts'
import { networkAt, usualBoundary } from './capabilities.ts'
import { nothingTaken } from './taken.ts'
import { defaultConfig } from './config/merge.ts'
import { resolveContract, type ContractInput } from './contract.ts'

const card = (more: Partial<AgentCard> = {}): AgentCard =>
  agentCardSchema.parse({ id: 'command', name: 'Command', ...more })

function resolve(spec: SandboxSpec | null, more: Partial<ContractInput> = {}): Contract {
  return resolveContract({
    spec,
    legacySandbox: null,
    card: card(),
    phase: null,
    role: null,
    roots: ['/projects/a'],
    config: defaultConfig(),
    parent: null,
    ...more,
  })
}

function refusal(act: () => unknown): { kind: string; message: string } {
  try {
    act()
  } catch (error) {
    if (error instanceof OrangeryError) return { kind: error.kind, message: error.message }
    throw error
  }
  return { kind: 'accepted', message: '' }
}

describe('defaults', () => {
  test('a dispatch that says nothing runs at level 1, on an overlay, readwrite, with no outputs', () => {
    expect(resolve(null)).toEqual({
      level: 1,
      strategy: 'overlay',
      platform: null,
      outputs: { mode: 'none', allow: [], deny: [], pins: {}, always: [], readOnly: false, declared: false },
      software: null,
      boundary: 'readwrite',
      phase: null,
      roots: ['/projects/a'],
      workingDir: null,
      hide: [],
      writableFiles: [],
      limits: {},
      onLimit: 'record',
      toolsAllowed: null,
      toolsDenied: [],
      maxTurns: null,
      maxCommands: null,
    })
  })

  test.each([
    ['plan', 'readonly', ['/projects/a/TODO.md']],
    ['build', 'readwrite', []],
    ['learn', 'readonly', ['/projects/a/AGENTS.md']],
  ] as const)('the phase %s starts at %s and may write %j in place', (phase, boundary, files) => {
    expect(usualBoundary(phase, defaultConfig())).toBe(boundary)
    expect(resolve(null, { phase })).toMatchObject({ boundary, writableFiles: files, phase })
    expect(resolve({ phase })).toMatchObject({ boundary, writableFiles: files, phase })
  })

  test('the level is the spec’s, else the policy’s rule, else the card’s, and bare where the user said so', () => {
    const config = defaultConfig()
    config.sandboxSelection = [{ agent: 'command', role: 'reviewer', level: 2 }]
    expect(resolve(null, { card: card({ sandboxLevel: 3 }) }).level).toBe(3)
    expect(resolve(null, { config, role: 'reviewer' }).level).toBe(2)
    expect(resolve(null, { config, role: 'author' }).level).toBe(1)
    expect(resolve({ isolation: 'vm' }, { config, role: 'reviewer' }).level).toBe(3)
    expect(resolve(null, { config: { ...config, sandboxEnabled: false } }).level).toBe(0)
    expect(resolve({ isolation: 'os' }, { config: { ...config, sandboxEnabled: false } }).level).toBe(1)
    expect(resolve({ software: 'node:24' }).level).toBe(2)
    expect(resolve({ software: 'linux' }).level).toBe(1)
  })

  test('the legacy string counts only where the spec says nothing', () => {
    expect(resolve(null, { legacySandbox: 'read-only' }).boundary).toBe('readonly')
    expect(resolve({ access_mode: 'full' }, { legacySandbox: 'read-only' }).boundary).toBe('full')
    expect(refusal(() => resolve(null, { legacySandbox: 'read-ony' })).kind).toBe('input')
  })
})

describe('contradictions and refusals', () => {
  test.each<[string, SandboxSpec, Partial<ContractInput>]>([
    ['two phases', { phase: 'plan' }, { phase: 'build' }],
    ['an image without a container', { isolation: 'os', software: 'node:24' }, {}],
    ['freebsd without a vm', { isolation: 'container', software: 'freebsd' }, {}],
    ['a container platform without a container', { isolation: 'os', platform: 'container' }, {}],
    ['readonly that nothing enforces', { isolation: 'none', changeset: 'none', boundary: 'readonly' }, {}],
    ['hosts that nothing enforces', { isolation: 'none', outputs: { allow: ['a.test'] } }, {}],
    ['no outputs that nothing enforces', { isolation: 'none', outputs: { mode: 'none' } }, {}],
    ['hosts with outputs none', { outputs: { mode: 'none', allow: ['a.test'] } }, {}],
    ['a host that is none', { outputs: { allow: ['http://a.test/'] } }, {}],
    ['every host in a list', { outputs: { mode: 'restricted', allow: ['*'] } }, {}],
    ['every host among the denied', { outputs: { mode: 'open', deny: ['*'] } }, {}],
    ['a name that ends in a number', { outputs: { allow: ['foo.123'] } }, {}],
    ['a wildcard of nothing', { outputs: { allow: ['*.'] } }, {}],
    ['a pin without a port', { outputs: { pins: { 'a.test': '127.0.0.1' } } }, {}],
    ['a pin to a name', { outputs: { pins: { 'a.test:80': 'other.test:80' } } }, {}],
  ])('%s is bad input', (_name, spec, more) => {
    expect(refusal(() => resolve(spec, more)).kind).toBe('input')
  })

  test('the policy’s minimum level and maximum boundary are refused where they are passed, with the words', () => {
    const config = defaultConfig()
    config.sandboxSelection = [{ agent: '*', role: '*', minimum: 2 }]
    config.sandboxMaximumBoundary = 'readwrite'
    expect(resolve(null, { config })).toMatchObject({ level: 2, boundary: 'readwrite' })
    expect(refusal(() => resolve({ isolation: 'os' }, { config }))).toEqual({
      kind: 'refused',
      message: 'level 1 (os-sandboxed): the policy asks for at least 2 (container) for command',
    })
    expect(refusal(() => resolve({ boundary: 'network' }, { config })).kind).toBe('refused')
  })
})

describe('outputs and the boundary', () => {
  const outputs = {
    mode: 'restricted',
    allow: ['a.test:80'],
    pins: { 'a.test:80': '127.0.0.1:8080' },
  } as const
  const spec = (more: SandboxSpec = {}): SandboxSpec => ({
    outputs: { mode: outputs.mode, allow: [...outputs.allow], pins: outputs.pins },
    ...more,
  })
  const reach = (contract: Contract, level = contract.boundary, granted: string[] = []) =>
    networkAt(contract, level, granted, defaultConfig())

  test('hosts named without a boundary are reached', () => {
    const contract = resolve(spec())
    expect(contract.boundary).toBe('network')
    expect(reach(contract)).toEqual({ ...outputs, deny: [], readOnly: false, ...nothingTaken })
  })

  test('a boundary spelled out below network keeps the named hosts behind it until it is widened', () => {
    const contract = resolve(spec({ boundary: 'readwrite' }))
    expect(reach(contract).mode).toBe('none')
    expect(reach(contract).pins).toEqual({})
    expect(reach(contract, 'network')).toEqual({ ...outputs, deny: [], readOnly: false, ...nothingTaken })
  })

  test('an access mode speaks of files: the named hosts are reached with any of them', () => {
    const writing = resolve(spec({ access_mode: 'workspace-write' }))
    expect(writing.boundary).toBe('network')
    expect(reach(writing)).toEqual({ ...outputs, deny: [], readOnly: false, ...nothingTaken })
    expect(resolve(spec(), { legacySandbox: 'workspace-write' }).boundary).toBe('network')
    const reading = resolve(spec({ access_mode: 'read-only' }))
    expect(reading.boundary).toBe('readonly')
    expect(reach(reading)).toMatchObject(outputs)
    expect(resolve({ access_mode: 'workspace-write' }).boundary).toBe('readwrite')
  })

  test('an open network goes with files that stay as they are, unless the policy allows no host', () => {
    const open = { outputs: { mode: 'open' } } as const
    expect(reach(resolve({ ...open, access_mode: 'read-only' })).mode).toBe('open')
    expect(reach(resolve(open, { phase: 'plan' })).mode).toBe('open')
    expect(reach(resolve({ ...open, boundary: 'readonly' })).mode).toBe('none')
    const config = { ...defaultConfig(), sandboxMaximumBoundary: 'readwrite' as const }
    expect(networkAt(resolve({ ...open, access_mode: 'read-only' }), 'readonly', [], config).mode).toBe(
      'none',
    )
  })

  test('a child has an open network over read-only files only under a parent that has one now', () => {
    const wish = { access_mode: 'read-only', outputs: { mode: 'open' } } as const
    const open = resolve(wish)
    expect(reach(resolve(wish, { parent: open })).mode).toBe('open')
    const closed = resolve({ boundary: 'readwrite', outputs: { mode: 'open' } })
    expect(reach(resolve(wish, { parent: closed })).mode).toBe('none')
  })

  test('a read-only phase with named hosts reaches them and writes nothing', () => {
    const contract = resolve(spec(), { phase: 'plan' })
    expect(contract.boundary).toBe('readonly')
    expect(reach(contract).allow).toEqual(['a.test:80'])
  })

  test('the hosts of the agent’s card hold at every boundary, unless outputs are none', () => {
    const claude = card({ sandboxRequirements: { hosts: ['api.test'], env: [], read: [], home: 'fresh' } })
    expect(reach(resolve(null, { card: claude })).allow).toEqual(['api.test'])
    expect(reach(resolve({ boundary: 'readonly' }, { card: claude })).allow).toEqual(['api.test'])
    expect(reach(resolve({ outputs: { mode: 'none' } }, { card: claude })).mode).toBe('none')
  })

  test('a word about files alone opens no network, however much it gives', () => {
    for (const contract of [
      resolve({ access_mode: 'full' }),
      resolve(null, { legacySandbox: 'full' }),
      resolve(null, { legacySandbox: 'danger-full-access' }),
    ]) {
      expect(contract.boundary).toBe('full')
      expect(reach(contract).mode).toBe('none')
    }
    expect(reach(resolve({ access_mode: 'full', outputs: { mode: 'open' } })).mode).toBe('open')
    const claude = card({ sandboxRequirements: { hosts: ['api.test'], env: [], read: [], home: 'fresh' } })
    expect(reach(resolve({ access_mode: 'full' }, { card: claude })).allow).toEqual(['api.test'])
    // There the network is the host's, and nobody promises otherwise.
    expect(resolve({ access_mode: 'full', isolation: 'none' }).outputs.declared).toBe(false)
  })

  test('full opens the outputs only where the contract did not narrow them', () => {
    expect(reach(resolve({ boundary: 'full' })).mode).toBe('open')
    expect(reach(resolve(spec({ boundary: 'full' }))).mode).toBe('restricted')
    expect(reach(resolve({ boundary: 'full', outputs: { mode: 'none' } })).mode).toBe('none')
    expect(reach(resolve({ boundary: 'readwrite', outputs: { mode: 'open' } })).mode).toBe('none')
    expect(reach(resolve({ outputs: { mode: 'open' } })).mode).toBe('open')
  })

  test('network alone reaches the level’s hosts and those approved, nothing else', () => {
    const config = defaultConfig()
    config.sandboxLevels.network = {
      ...config.sandboxLevels.network,
      hosts: ['r.test'],
      deniedHosts: ['x.test'],
    }
    const contract = resolve({ boundary: 'network' }, { config })
    expect(networkAt(contract, 'network', ['b.test'], config)).toEqual({
      mode: 'restricted',
      allow: ['r.test', 'b.test'],
      deny: ['x.test'],
      pins: {},
      readOnly: false,
      ...nothingTaken,
    })
    expect(networkAt(contract, 'readwrite', [], config).mode).toBe('none')
  })
})

describe('a child under its parent', () => {
  const parent = resolve({
    boundary: 'network',
    outputs: { mode: 'restricted', allow: ['*.a.test'], deny: ['bad.a.test'] },
    roots: ['/projects'],
    hide: ['.env*'],
    tools_allowed: ['Read', 'Edit'],
    tools_denied: ['Bash'],
    max_turns: 5,
    max_commands: 20,
    on_limit: 'stop',
    limits: { cpus: 2, memory_mb: 1000, pids: 50, disk_mb: 100, timeout_s: 60 },
  })

  test('a host its parent is led elsewhere for leads the child there too', () => {
    const pins = { 'api.test:443': '127.0.0.1:9999' }
    const led = resolve({ boundary: 'network', outputs: { mode: 'restricted', pins } })
    const child = resolve({ outputs: { mode: 'restricted', allow: ['api.test:443'] } }, { parent: led })
    expect(child.outputs).toMatchObject({ allow: ['api.test:443'], pins })
    // One that may reach nothing is led there once it is given the host, and the pin gives it none.
    const closed = resolve(null, { parent: led })
    for (const level of ['readwrite', 'network'] as const)
      expect(networkAt(closed, level, [], defaultConfig())).toMatchObject({ mode: 'none', pins: {} })
    const given = networkAt(closed, 'network', ['api.test:443', 'b.test'], defaultConfig())
    expect(given.allow).toEqual(['api.test:443', 'b.test'])
    expect(given.pins).toEqual(pins)
    const wide = resolve({ outputs: { pins: { 'api.test': '127.0.0.1:9999', 'c.test': '127.0.0.1:1' } } })
    expect(networkAt(wide, 'readwrite', ['api.test:443'], defaultConfig()).pins).toEqual(pins)
  })

  test.each<[string, SandboxSpec]>([
    ['level 0', { isolation: 'none' }],
    ['changeset none', { changeset: 'none' }],
    ['a pin', { outputs: { pins: { 'x.a.test:80': '127.0.0.1:80' } } }],
    ['a wider boundary', { boundary: 'full' }],
    ['open outputs', { outputs: { mode: 'open' } }],
    ['a host the parent has not', { outputs: { allow: ['nota.test'] } }],
    ['a root outside', { roots: ['/workshop'] }],
  ])('%s is refused', (_name, spec) => {
    expect(refusal(() => resolve(spec, { parent })).kind).toBe('refused')
  })

  test.each<[string, SandboxSpec]>([
    ['tools_allowed', { tools_allowed: ['Read', 'Write'] }],
    ['tools_allowed', { tools_allowed: ['Bash'] }],
    ['max_turns', { max_turns: 6 }],
    ['max_commands', { max_commands: 21 }],
    ['on_limit', { on_limit: 'record' }],
    ['limits.cpus', { limits: { cpus: 2.5 } }],
    ['limits.memory_mb', { limits: { memory_mb: 1001 } }],
    ['limits.pids', { limits: { pids: 51 } }],
    ['limits.disk_mb', { limits: { disk_mb: 101 } }],
    ['limits.timeout_s', { limits: { timeout_s: 61 } }],
  ])('more %s than the parent has is refused by name', (field, spec) => {
    const error = refusal(() => resolve(spec, { parent }))
    expect(error.kind).toBe('refused')
    expect(error.message.startsWith(`${field}: `)).toBe(true)
  })

  test('the legacy word asks for no more than the parent has either', () => {
    expect(refusal(() => resolve(null, { parent, legacySandbox: 'full' })).kind).toBe('refused')
    expect(resolve(null, { parent, legacySandbox: 'read-only' }).boundary).toBe('readonly')
    // The control: the spec supersedes the word.
    expect(resolve({ boundary: 'readonly' }, { parent, legacySandbox: 'full' }).boundary).toBe('readonly')
  })

  test('what it does not say is cut to the parent’s, what it may have it gets', () => {
    expect(
      resolve(
        {
          outputs: { allow: ['x.a.test'] },
          limits: { pids: 9 },
          tools_allowed: ['Read'],
          tools_denied: ['Edit'],
          max_turns: 5,
        },
        { parent },
      ),
    ).toMatchObject({
      boundary: 'network',
      outputs: { allow: ['x.a.test'], deny: ['bad.a.test'] },
      limits: { cpus: 2, memory_mb: 1000, pids: 9, disk_mb: 100, timeout_s: 60 },
      hide: ['.env*'],
      toolsAllowed: ['Read'],
      // Both lists hold: its own, and the parent's.
      toolsDenied: ['Edit', 'Bash'],
      maxTurns: 5,
      maxCommands: 20,
      onLimit: 'stop',
    })
    const readonlyParent = resolve({ boundary: 'readonly' })
    expect(resolve(null, { parent: readonlyParent, phase: 'plan' })).toMatchObject({
      boundary: 'readonly',
      writableFiles: [],
    })
  })
})

test('what a level names writable is placed in the first root, and a child gets of it what its parent has', () => {
  const config = defaultConfig()
  config.sandboxLevels.readwrite = { ...config.sandboxLevels.readwrite, writable: ['src/', 'a.txt'] }
  config.sandboxLevels.full = { ...config.sandboxLevels.full, writable: ['.'] }
  const roots = ['/projects/a', '/projects/b']
  const parent = resolve({ phase: 'plan' }, { roots, config })
  const named = ['/projects/a/TODO.md', '/projects/a/src', '/projects/a/a.txt']
  expect(parent.writableAt).toEqual({ readwrite: named, network: named })
  expect(parent.writableFiles).toEqual(['/projects/a/TODO.md'])
  const free = { config: defaultConfig(), parent: { ...parent, boundary: 'readwrite' } as const }
  const child = (...folders: string[]) => resolve(null, { ...free, roots: folders }).writableAt?.readwrite
  expect(child('/projects/a')).toEqual(named)
  expect(child('/projects/b')).toEqual([])
  expect(child('/projects/a/src')).toBeUndefined()
  expect(child('/projects/a/src/x', '/projects/b')).toEqual(['/projects/a/src/x'])
})

test('a child about whose outputs nobody spoke is not one that is to reach nothing, unless its parent is', () => {
  expect(resolve({}, { parent: resolve({}) }).outputs).toMatchObject({
    mode: 'none',
    declared: true,
    cut: true,
  })
  const closed = { outputs: { mode: 'none' } } as const
  expect(resolve({}, { parent: resolve(closed) }).outputs.cut).toBeUndefined()
  expect(resolve(closed, { parent: resolve({}) }).outputs.cut).toBeUndefined()
})

describe('a mode for each root', () => {
  const roots = ['/projects/a', '/projects/b']

  test('is kept for those that are not rw, and phase files go to the first root the agent sees', () => {
    const modes = { '/projects/a/': 'hidden', '/projects/b': 'rw' } as const
    const { rootModes, writableFiles } = resolve({ root_modes: modes, phase: 'plan' }, { roots })
    expect(rootModes).toEqual({ '/projects/a': 'hidden' })
    expect(writableFiles.filter((path) => !path.startsWith('/projects/b/'))).toEqual([])
    expect(resolve({ root_modes: { '/projects/b': 'rw' } }, { roots })).not.toHaveProperty('rootModes')
  })

  test('is the card’s where the contract says none, by path before name before all', () => {
    const rootModes = { '*': 'ro', b: 'hidden', '/projects/c': 'rw' } as const
    const reviewer = card({ sandboxRequirements: { hosts: [], env: [], read: [], home: 'fresh', rootModes } })
    const all = { card: reviewer, roots: [...roots, '/projects/c'] }
    expect(resolve(null, all).rootModes).toEqual({ '/projects/a': 'ro', '/projects/b': 'hidden' })
    const said = { root_modes: { '/projects/a': 'rw', '/projects/c': 'ro' } } as const
    expect(resolve(said, all).rootModes).toEqual({ '/projects/b': 'hidden', '/projects/c': 'ro' })
  })

  test.each<[string, SandboxSpec]>([
    ['is none of the roots', { root_modes: { '/projects': 'ro' } }],
    ['every root is hidden', { root_modes: { '/projects/a': 'hidden', '/projects/b': 'hidden' } }],
    ['which is hidden', { root_modes: { '/projects/b': 'hidden' }, working_dir: '/projects/b/x' }],
  ])('is bad input where %s', (message, spec) => {
    expect(refusal(() => resolve(spec, { roots }))).toMatchObject({
      kind: 'input',
      message: expect.stringContaining(message) as string,
    })
  })
})
