import { execFileSync } from 'node:child_process'
import { mkdtemp, mkdir, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { ConfigFile, EffectiveConfig } from '../../../shared/config.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { capabilitiesOf } from '../capabilities.ts'
import { narrowerBoundary } from './narrow.ts'
import { loadConfig } from './load.ts'
import { configNotes } from './notes.ts'
import { readConfigText } from './read.ts'
import { writeTrust } from './trust.ts'
import { writableOf } from '../scope.ts'

let home: string
let project: string
let userConfigDir: string

beforeEach(async () => {
  home = await realpath(await mkdtemp(join(tmpdir(), 'orangery-config-')))
  project = join(home, 'project')
  userConfigDir = join(home, 'config')
  await mkdir(project)
  await mkdir(userConfigDir)
})
afterEach(() => rm(home, { recursive: true, force: true }))

const load = (roots: readonly string[] = [project]): Promise<EffectiveConfig> =>
  loadConfig({ userConfigDir, roots })
const user = (config: ConfigFile | string) => writeFile(join(userConfigDir, 'config.json'), text(config))
const own = (config: ConfigFile | string, folder = project) =>
  writeFile(join(folder, '.orangery.json'), text(config))
const text = (config: ConfigFile | string): string =>
  typeof config === 'string' ? config : JSON.stringify(config, null, 2)

async function trust(folder = project): Promise<void> {
  const source = await readConfigText(join(folder, '.orangery.json'))
  const entry = {
    sha256: source!.sha256,
    text: source!.text,
    at: '2026-01-01T00:00:00Z',
    by: 'test',
    approvals: [],
    repository: null,
  }
  await writeTrust(userConfigDir, { version: 1, projects: { [folder]: entry }, includes: {} })
}

async function failure(promise: Promise<unknown>): Promise<OrangeryError> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(OrangeryError)
  return error as OrangeryError
}

describe('reading', () => {
  test('with no file at all the defaults hold, and every value says so', async () => {
    const config = await load()
    expect(config).toMatchObject({
      sandboxEnabled: true,
      sandboxBoundaries: { plan: 'readonly', build: 'readwrite', learn: 'readonly' },
      sandboxEscalationPolicy: 'prompt',
      sandboxApprovedEscalations: [],
      projects: [{ root: project, trust: 'absent' }],
    })
    expect(
      new Set(Object.values(config.provenance).flatMap((list) => list.map((one) => one.source))),
    ).toEqual(new Set(['default']))
  })

  test('an invalid level is refused with file, line and the allowed values', async () => {
    await own('{\n  // comment\n  "sandboxBoundaries": {\n    "plan": "readable"\n  }\n}\n')
    const error = await failure(load())
    expect(error.kind).toBe('input')
    expect(error.message).toContain(`${join(project, '.orangery.json')}:4: sandboxBoundaries.plan`)
    for (const level of ['readonly', 'readwrite', 'network', 'full']) expect(error.message).toContain(level)
  })

  test('of several wrong values each is named with its line', async () => {
    await user(
      '{\n  "sandboxBoundaries": { "plan": "x" },\n  "sandboxEscalationPolicy": "maybe",\n  "sandboxApprovedEscalations": [\n    { "level": "network", "expires": "tomorrow" }\n  ]\n}',
    )
    const error = await failure(load())
    expect(error.message).toMatch(/:2: sandboxBoundaries\.plan: .*\(and 2 more\)$/)
    expect(error.hint).toMatch(/line 3: sandboxEscalationPolicy: .*"auto"\|"prompt"/)
    expect(error.hint).toContain(
      'line 5: sandboxApprovedEscalations.0.expires: not a time: write it as 2027-',
    )
  })

  test('a key that is given twice is an error at its second place', async () => {
    await user(
      '{\n  "sandboxMaximumBoundary": "full",\n  "sandboxLevels": { "full": {} },\n  "sandboxMaximumBoundary": "readonly"\n}',
    )
    expect((await failure(load())).message).toContain(
      'config.json:4: sandboxMaximumBoundary: given a second time',
    )
  })

  test('whoever starts something hears of unknown keys, and of a repository’s file that asks for more than it gets', async () => {
    await user('{\n  "sandboxEnabeld": true\n}')
    await own({ sandboxBoundaries: { build: 'full' } })
    expect(configNotes(await load())).toEqual([
      `${join(userConfigDir, 'config.json')}:2: sandboxEnabeld: unknown key, ignored`,
      `${join(project, '.orangery.json')} is not trusted and can only narrow: see \`orangery config trust ${project}\``,
    ])
    await trust()
    expect(configNotes(await load())).toHaveLength(1)
    await own({ sandboxBoundaries: { build: 'network' } })
    expect(configNotes(await load())[1]).toContain('has changed since you trusted it')
    // One that asks for nothing more needs no word.
    await own({ sandboxBoundaries: { build: 'readonly' } })
    expect(configNotes(await load())).toHaveLength(1)
  })

  test.each([
    ['{ "sandboxSelection": [{ "level": 7 }] }', 'expected one of 0, 1, 2, 3'],
    ['{ "sandboxEnabled": "yes" }', 'allowed is true or false'],
    ['{ "sandboxEscalationWait": 601 }', '0 (denied at once) to 600'],
    ['{ "sandboxEscalationWait": "long" }', '0 (denied at once) to 600'],
    ['{ "sandboxSelection": "os" }', 'allowed is a list'],
    ['{ "sandboxSelection": [{ "minimum": "bogus" }] }', 'expected one of 0, 1, 2, 3'],
    [
      '{ "sandboxApprovedEscalations": [{ "level": "full", "host": [] }] }',
      'allowed are agent, level, hosts',
    ],
    ['{ "sandboxLevels": { "readonly": { "writable": ["./"] } } }', 'names the whole root'],
    ['{ "sandboxLevels": { "full": { "writable": ["../src"] } } }', 'must be a path inside the root'],
    ['{ "sandboxLevels": { "readwrite": { "hide": ["a/../b"] } } }', 'leads out by ..'],
    ['{ "sandboxLevels": { "readwrite": { "hide": ["{.env,x}"] } } }', 'has braces'],
  ])('a wrong value is told with its line and what is allowed: %s', async (text, allowed) => {
    await user(`\n${text}`)
    const { message } = await failure(load())
    expect(message).toContain('config.json:2: sandbox')
    expect(message).toContain(allowed)
  })

  test('a syntax error names its line', async () => {
    await user('{\n  "sandboxEnabled": true,\n  oops\n}')
    expect((await failure(load())).message).toContain(`${join(userConfigDir, 'config.json')}:3: not JSON`)
  })

  test('a folder that the user’s file names through a link covers nothing, and is warned about with the real one', async () => {
    await symlink(project, join(home, 'link'))
    const roots = [join(home, 'link'), project]
    await user({
      sandboxApprovedEscalations: [{ agent: '*', level: 'network', hosts: [], roots }],
      sandboxAutoEscalation: { hosts: [], roots },
    })
    const message = `covers nothing: it leads through a link; write ${project}`
    expect((await load()).warnings).toMatchObject([
      { key: 'sandboxApprovedEscalations.0.roots.0', message },
      { key: 'sandboxAutoEscalation.roots.0', message },
    ])
  })

  test('hosts for auto without a root to go with them widen nothing, and the config says so with its line', async () => {
    const warned = async (roots: readonly string[]) => {
      await user(`{\n  "sandboxAutoEscalation": ${JSON.stringify({ hosts: ['a.test'], roots })}\n}`)
      return (await load()).warnings.map(({ key, line, message }) => `${key}:${line}: ${message}`)
    }
    const said =
      'sandboxAutoEscalation:2: widens nothing without roots: name absolute folders or ~/… for its hosts'
    expect(await warned([])).toEqual([said])
    expect(await warned(['not/absolute'])).toEqual([said])
    expect(await warned([project])).toEqual([])
  })

  test('an unknown key is warned about with its line and does not stop anything', async () => {
    await user(
      '{\n  "sandboxEnabled": true,\n  "sandboxEnabeld": false,\n  "sandboxLevels": { "readonly": { "hots": [] } }\n}',
    )
    const config = await load()
    expect(config.warnings.map(({ key, line }) => [key, line])).toEqual([
      ['sandboxEnabeld', 3],
      ['sandboxLevels.readonly.hots', 4],
    ])
  })

  test.each([
    ['sandboxLevels', '{ "readwrit": {} }', 'readonly, readwrite, network, full'],
    ['sandboxBoundaries', '{ "paln": "full" }', 'plan, build, learn'],
    ['sandboxPhaseFiles', '{ "lern": [] }', 'plan, build, learn'],
  ])(
    'a level or phase that there is none of in %s is an error with its line and the names',
    async (key, value, names) => {
      await user(`{\n  "${key}":\n  ${value}\n}`)
      const error = await load().catch((caught: unknown) => String(caught))
      expect(error).toContain('config.json:3: ')
      expect(error).toContain(`allowed are ${names}`)
    },
  )

  test('an unknown key inside an approval is an error, because dropping it could make the approval wider', async () => {
    await user(
      '{ "sandboxApprovedEscalations": [\n{ "level": "network", "expiers": "2026-01-01T00:00:00Z" }] }',
    )
    expect((await failure(load())).message).toContain('config.json:2: sandboxApprovedEscalations.0')
  })

  test('a fifo, a symlink, a folder, a huge and a deeply nested file in place of the config are refused without blocking', async () => {
    const file = join(project, '.orangery.json')
    execFileSync('mkfifo', [file])
    expect((await failure(load())).message).toContain('not a regular file')
    await rm(file)
    await symlink('/dev/zero', file)
    expect((await failure(load())).message).toContain('symbolic link')
    await rm(file)
    await writeFile(file, ' '.repeat(600_000))
    expect((await failure(load())).message).toContain('larger')
    await writeFile(file, '['.repeat(200_000))
    expect((await failure(load())).message).toContain('nested deeper')
    await rm(file)
    await mkdir(file)
    expect((await failure(load())).message).toContain('not a regular file')
  })

  test('the file at the top of the repository holds for a folder inside it, one above it does not', async () => {
    const inner = join(project, 'packages', 'one')
    await mkdir(inner, { recursive: true })
    await own({ sandboxBoundaries: { build: 'readonly' } })
    expect((await load([inner])).sandboxBoundaries.build).toBe('readwrite')
    await mkdir(join(project, '.git'))
    expect((await load([inner])).sandboxBoundaries.build).toBe('readonly')
    await mkdir(join(project, 'packages', '.git'))
    expect((await load([inner])).sandboxBoundaries.build).toBe('readwrite')
  })
})

describe('trust', () => {
  const wide: ConfigFile = {
    sandboxEnabled: false,
    sandboxBoundaries: { build: 'full', plan: 'readwrite' },
    sandboxEscalationPolicy: 'auto',
    sandboxAutoEscalation: { hosts: ['*.test'], roots: ['/'] },
    sandboxProxyResolves: true,
    sandboxLevels: { network: { hosts: ['evil.test'] }, readonly: { writable: ['x'], hosts: ['evil.test'] } },
    sandboxPhaseFiles: { plan: ['src/x.ts'] },
    sandboxSelection: [{ agent: '*', role: '*', level: 0 }],
    sandboxApprovedEscalations: [{ agent: '*', level: 'full', hosts: [] }],
    agentForbiddenTools: [],
    agentInactivityTimeout: 0,
  }

  test('a repository’s file that is not trusted widens nothing at all', async () => {
    const before = await load()
    await own(wide)
    const after = await load()
    const { provenance: _p, heldBack, warnings: _w, projects, ...values } = after
    const { provenance: _q, heldBack: _h, warnings: _v, projects: _r, ...expected } = before
    expect(values).toEqual({ ...expected, sandboxPhaseFiles: { ...expected.sandboxPhaseFiles, plan: [] } })
    expect(projects[0]?.trust).toBe('untrusted')
    expect(heldBack.map(({ key }) => key)).toEqual(
      expect.arrayContaining(['sandboxEnabled', 'sandboxBoundaries.build', 'sandboxApprovedEscalations']),
    )
  })

  test.each([{ sandboxBoundaries: { build: 'readonly' } }, { sandboxMaximumBoundary: 'readonly' }] as const)(
    'an untrusted file that lowers a boundary lifts nothing that the user hid or denied above it: %j',
    async (lowered) => {
      const denied = { tools: { deny: ['Web'] }, commands: { deny: ['git push'] } }
      await user({
        sandboxLevels: { readwrite: { hide: ['.env'], deniedHosts: ['telemetry.test'], ...denied } },
      })
      await own(lowered)
      const config = await load()
      const level = narrowerBoundary(config.sandboxBoundaries.build, config.sandboxMaximumBoundary)
      expect(capabilitiesOf(level, config)).toMatchObject({
        level: 'readonly',
        files: { hide: ['.env'] },
        network: { deniedHosts: ['telemetry.test'] },
        ...denied,
      })
    },
  )

  test('a repository’s file that is not trusted names fewer places to write, never others', async () => {
    await user({ sandboxLevels: { readwrite: { writable: ['src', 'docs'] } } })
    await own({ sandboxLevels: { readwrite: { writable: ['src/a', 'lib'] }, full: { writable: ['.'] } } })
    const { sandboxLevels } = await load()
    expect(writableOf(sandboxLevels, 'readwrite')).toEqual(['src/a'])
    expect(writableOf(sandboxLevels, 'full')).toEqual(['src', 'docs'])
    await user({})
    const alone = (await load()).sandboxLevels
    expect(writableOf(alone, 'readwrite')).toEqual(['src/a', 'lib'])
    expect(writableOf(alone, 'full')).toBeNull()
  })

  test('every list of what can be written names the file it came from, whether that is trusted or not', async () => {
    const shown = async () => {
      const { sandboxLevels, provenance } = await load()
      return (['readwrite', 'network', 'full'] as const).map((level) => [
        sandboxLevels[level].writable,
        ...(provenance[`sandboxLevels.${level}.writable`] ?? []).map(({ source }) => source),
      ])
    }
    const untouched = [null, 'default']
    await own({ sandboxLevels: { readwrite: { writable: ['src'] } } })
    expect(await shown()).toEqual([[['src'], 'project'], untouched, untouched])
    await user({ sandboxLevels: { readwrite: { writable: ['src'] } } })
    await own({ agentForbiddenTools: [] })
    expect(await shown()).toEqual([[['src'], 'user'], untouched, untouched])
    await own({ sandboxLevels: { network: { writable: ['src/a', 'lib'] } } })
    expect(await shown()).toEqual([[['src'], 'user'], [['src/a'], 'user', 'project'], untouched])
  })

  test('a repository’s file that is not trusted narrows', async () => {
    await user({ agentInactivityTimeout: 600, sandboxLevels: { network: { hosts: ['*.a.test', 'b.test'] } } })
    await own({
      sandboxBoundaries: { build: 'readonly' },
      sandboxMaximumBoundary: 'readwrite',
      agentForbiddenTools: ['Question'],
      agentInactivityTimeout: 60,
      sandboxLevels: { network: { hosts: ['x.a.test'], deniedHosts: ['c.test'], tools: { deny: ['Web'] } } },
      sandboxSelection: [{ agent: '*', role: '*', level: 0, minimum: 2 }],
    })
    expect(await load()).toMatchObject({
      sandboxBoundaries: { build: 'readonly' },
      sandboxMaximumBoundary: 'readwrite',
      agentForbiddenTools: ['AskUserQuestion', 'Question'],
      agentInactivityTimeout: 60,
      sandboxLevels: { network: { hosts: ['x.a.test'], deniedHosts: ['c.test'], tools: { deny: ['Web'] } } },
      sandboxSelection: [{ agent: '*', role: '*', minimum: 2 }],
    })
  })

  test('once trusted it goes over the user’s, except for what only the user can say', async () => {
    await user({ sandboxBoundaries: { build: 'readonly' }, sandboxMaximumBoundary: 'network' })
    const zero = { role: '*', level: 0 as const }
    const sandboxSelection = [
      { agent: '*', ...zero },
      { agent: 'a', ...zero, minimum: 1 as const },
    ]
    await own({ ...wide, sandboxSelection, sandboxMaximumBoundary: 'full' })
    await trust()
    const config = await load()
    expect(config).toMatchObject({
      sandboxEnabled: true,
      sandboxBoundaries: { build: 'full', plan: 'readwrite' },
      sandboxEscalationPolicy: 'auto',
      sandboxAutoEscalation: { hosts: [], roots: [] },
      sandboxProxyResolves: false,
      sandboxSelection: [{ agent: 'a', role: '*', minimum: 1 }],
      sandboxMaximumBoundary: 'network',
      projects: [{ trust: 'trusted' }],
    })
    expect(config.provenance['sandboxBoundaries.build']).toEqual([
      { source: 'project', file: join(project, '.orangery.json'), line: expect.any(Number) },
    ])
    expect(config.heldBack.map(({ key }) => key)).toEqual([
      'sandboxEnabled',
      'sandboxAutoEscalation',
      'sandboxProxyResolves',
      'sandboxSelection',
      'sandboxMaximumBoundary',
    ])
    // Its value is the user's still, and so is where it came from.
    expect(config.provenance['sandboxMaximumBoundary']).toMatchObject([{ source: 'user', line: 5 }])
  })

  test('a trusted file that changed by one byte is untrusted again', async () => {
    await own(wide)
    await trust()
    await own(`${text(wide)} `)
    const config = await load()
    expect(config.projects[0]?.trust).toBe('changed')
    expect(config.sandboxBoundaries.build).toBe('readwrite')
    expect(config.sandboxApprovedEscalations).toEqual([])
  })

  test('with several roots only what all their files allow holds', async () => {
    const other = join(home, 'other')
    await mkdir(other)
    await own({
      sandboxBoundaries: { build: 'full' },
      sandboxApprovedEscalations: [{ agent: '*', level: 'full', hosts: [] }],
    })
    await trust()
    await own({ agentForbiddenTools: ['Other'] }, other)
    const config = await load([project, other])
    expect(config.sandboxBoundaries.build).toBe('readwrite')
    expect(config.agentForbiddenTools).toContain('Other')
    expect(config.sandboxApprovedEscalations.map(({ covers }) => covers)).toEqual([[project]])
  })

  test('an approval in a project’s file cannot name folders outside the project', async () => {
    await own({
      sandboxApprovedEscalations: [
        { agent: '*', level: 'network', hosts: [], roots: ['../other', '/etc', 'sub', 'sub/../..'] },
      ],
    })
    await trust()
    const { sandboxApprovedEscalations: approvals, warnings } = await load()
    expect(approvals[0]?.covers).toEqual([join(project, 'sub')])
    expect(warnings.map(({ key }) => key)).toEqual(
      [0, 1, 3].map((at) => `sandboxApprovedEscalations.0.roots.${at}`),
    )
  })
})
