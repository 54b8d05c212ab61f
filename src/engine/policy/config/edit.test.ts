import {
  chmod,
  chown,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  realpath,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { watch, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { SavedApproval } from '../../../shared/config.ts'
import { revokeApproval, saveApprovals } from './edit.ts'
import { distrustProject, trustProject, trustQuestion } from './trusting.ts'
import { isIncludeTrusted } from './include.ts'
import { loadConfig } from './load.ts'

let home: string
let project: string
let userConfigDir: string
const at = new Date('2026-01-01T12:00:00Z')

beforeEach(async () => {
  home = await realpath(await mkdtemp(join(tmpdir(), 'orangery-edit-')))
  project = join(home, 'project')
  userConfigDir = join(home, 'config')
  await mkdir(project)
})
afterEach(() => rm(home, { recursive: true, force: true }))

const approval = (host = 'a.test'): SavedApproval => ({ agent: 'claude', level: 'network', hosts: [host] })
const save = (scope: 'project' | 'user', approvals = [approval()], roots = [project]) =>
  saveApprovals({ userConfigDir, scope, approvals, roots, by: 'person', at })
const load = (roots = [project]) => loadConfig({ userConfigDir, roots })
const projectFile = () => join(project, '.orangery.json')
const userFile = () => join(userConfigDir, 'config.json')

const commented = `{
    // what the team agreed on
    "sandboxBoundaries": { "plan": "readonly" }, /* keep */
    "sandboxApprovedEscalations": [
        // the registry
        { "agent": "codex", "level": "network", "hosts": ["r.test"] } // since March
    ],
    "agentInactivityTimeout": 60, // seconds
}
`

test('saving to a file that is not there makes one, the user’s for the user alone', async () => {
  await save('user')
  await save('project')
  expect((await stat(userFile())).mode & 0o777).toBe(0o600)
  expect(JSON.parse(await readFile(projectFile(), 'utf8'))).toEqual({
    sandboxApprovedEscalations: [approval()],
  })
  expect((await load()).sandboxApprovedEscalations.map(({ source }) => source)).toEqual(['project', 'user'])
})

test('saving keeps comments, indentation, trailing commas, line ends and the mode of the file', async () => {
  await mkdir(userConfigDir)
  await writeFile(userFile(), commented.replaceAll('\n', '\r\n'))
  await chmod(userFile(), 0o640)
  await save('user')
  const text = await readFile(userFile(), 'utf8')
  for (const comment of [
    '// what the team agreed on',
    '/* keep */',
    '// the registry',
    '// since March',
    '// seconds',
  ]) {
    expect(text).toContain(comment)
  }
  expect(text.replaceAll('\r\n', '')).not.toContain('\n')
  expect(text).toContain('\r\n        { "agent": "claude", "level": "network", "hosts": ["a.test"] }\r\n')
  expect((await stat(userFile())).mode & 0o777).toBe(0o640)
  const before = commented.split('\n').slice(0, 4).join('\r\n')
  expect(text.startsWith(before)).toBe(true)
  expect((await load()).sandboxApprovedEscalations.map(({ agent }) => agent)).toEqual(['codex', 'claude'])
})

test('saving into a file of mixed line ends leaves every line’s own as it is', async () => {
  const lines = commented.split('\n')
  const mixed = lines.map((line, index) => line + (index < 2 ? '\r\n' : '\n')).join('')
  await mkdir(userConfigDir)
  await writeFile(userFile(), mixed)
  await save('user')
  const text = await readFile(userFile(), 'utf8')
  expect(text).toContain('// since March\n')
  expect(text.split('\r\n')).toHaveLength(3)
})

test('saving the same approval twice writes it once', async () => {
  await save('user')
  const text = await readFile(userFile(), 'utf8')
  await save('user')
  expect(await readFile(userFile(), 'utf8')).toBe(text)
})

test('many saves at once are all there afterwards', async () => {
  const hosts = Array.from({ length: 8 }, (_, index) => `h${index}.test`)
  await Promise.all(hosts.map((host) => save('user', [approval(host)])))
  const saved = (await load()).sandboxApprovedEscalations.flatMap(({ hosts: named }) => named)
  expect(saved.sort()).toEqual(hosts)
})

test('a user’s file that is a link stays a link', async () => {
  await mkdir(userConfigDir)
  const real = join(home, 'dotfiles.json')
  await writeFile(real, '{}\n')
  await symlink(real, userFile())
  await save('user')
  expect(await readlink(userFile())).toBe(real)
  expect(await readFile(real, 'utf8')).toContain('a.test')
})

test('saving and revoking keep bytes that are not UTF-8, and the trust in a file that has some', async () => {
  const before = Buffer.from('{\n  // r\u00e9gistre\n  "sandboxApprovedEscalations": []\n}\n', 'latin1')
  await writeFile(projectFile(), before)
  const { sha256 } = await trustQuestion(userConfigDir, project)
  await trustProject(userConfigDir, project, { sha256: sha256!, by: 'person', at })
  await save('project')
  const after = await readFile(projectFile())
  expect(after.subarray(0, 12)).toEqual(before.subarray(0, 12))
  const { projects, sandboxApprovedEscalations } = await load()
  expect(projects).toMatchObject([{ trust: 'trusted' }])
  await revokeApproval(userConfigDir, [project], sandboxApprovedEscalations[0]!.id)
  expect((await readFile(projectFile(), 'latin1')).startsWith('{\n  // r\u00e9gistre\n')).toBe(true)
  expect((await load()).projects).toMatchObject([{ trust: 'trusted' }])
})

test('saving leaves a file to whom it belongs', async (context) => {
  if (process.getuid?.() !== 0) return context.skip('only root may give a file to somebody else')
  await writeFile(projectFile(), '{}')
  await chown(projectFile(), 1000, 1001)
  await save('project')
  expect(await stat(projectFile())).toMatchObject({ uid: 1000, gid: 1001 })
})

test('saving into an untrusted project’s file trusts that approval and nothing else in the file', async () => {
  await writeFile(
    projectFile(),
    JSON.stringify({
      sandboxBoundaries: { build: 'full' },
      sandboxApprovedEscalations: [{ agent: '*', level: 'full', hosts: [] }],
    }),
  )
  await save('project')
  const config = await load()
  expect(config.sandboxBoundaries.build).toBe('readwrite')
  expect(config.sandboxApprovedEscalations.map(({ agent, level }) => [agent, level])).toEqual([
    ['claude', 'network'],
  ])
})

test('an approval saved from here that someone edits afterwards no longer counts', async () => {
  await save('project')
  const text = await readFile(projectFile(), 'utf8')
  await writeFile(projectFile(), text.replace('a.test', 'evil.test'))
  expect((await load()).sandboxApprovedEscalations).toEqual([])
})

test('saving into a trusted project’s file keeps it trusted', async () => {
  await writeFile(projectFile(), '{ "sandboxBoundaries": { "build": "network" } }')
  const question = await trustQuestion(userConfigDir, project)
  await trustProject(userConfigDir, project, { sha256: question.sha256!, by: 'person', at })
  await save('project')
  const config = await load()
  expect(config.projects[0]?.trust).toBe('trusted')
  expect(config.sandboxBoundaries.build).toBe('network')
})

test('trust is in the text that was shown, and a changed file shows the difference', async () => {
  await writeFile(projectFile(), '{ "sandboxBoundaries": { "build": "network" } }')
  const { sha256, before } = await trustQuestion(userConfigDir, project)
  expect(before).toBe('')
  await writeFile(projectFile(), '{ "sandboxBoundaries": { "build": "full" } }')
  await expect(
    trustProject(userConfigDir, project, { sha256: sha256!, by: 'person', at }),
  ).rejects.toMatchObject({
    code: 'config.moved',
  })
  const again = await trustQuestion(userConfigDir, project)
  await trustProject(userConfigDir, project, { sha256: again.sha256!, by: 'person', at })
  expect((await load()).sandboxBoundaries.build).toBe('full')
  await writeFile(projectFile(), '{ "sandboxBoundaries": { "build": "full" }, "agentForbiddenTools": [] }')
  expect(await trustQuestion(userConfigDir, project)).toMatchObject({
    trust: 'changed',
    before: '{ "sandboxBoundaries": { "build": "full" } }',
    now: expect.stringContaining('agentForbiddenTools'),
  })
  expect(await distrustProject(userConfigDir, project)).toBe(true)
  expect((await load()).projects[0]?.trust).toBe('untrusted')
})

test('trust is taken back also while the file cannot be understood', async () => {
  const text = '{ "sandboxBoundaries": { "build": "full" } }'
  await writeFile(projectFile(), text)
  const { sha256 } = await trustQuestion(userConfigDir, project)
  await trustProject(userConfigDir, project, { sha256: sha256!, by: 'person', at })
  await writeFile(projectFile(), '{')
  expect(await distrustProject(userConfigDir, project)).toBe(true)
  await writeFile(projectFile(), text)
  expect((await load()).projects[0]?.trust).toBe('untrusted')
})

test('a trusted file of which an approval was taken out is trusted on, and asks again where a comment or a note changed too', async () => {
  const item = (host: string, note = '') =>
    `    { "agent": "claude", "level": "network", "hosts": ["${host}"], "note": "${note}" }`
  const file = (comment: string, items: readonly string[]) =>
    `{\n  // ${comment}\n  "sandboxApprovedEscalations": [\n${items.join(',\n')}\n  ]\n}\n`
  const both = file('ours', [item('a.test', 'x'), item('b.test')])
  const stateAfter = async (text: string) => {
    await writeFile(projectFile(), both)
    const { sha256 } = await trustQuestion(userConfigDir, project)
    await trustProject(userConfigDir, project, { sha256: sha256!, by: 'person', at })
    await writeFile(projectFile(), text)
    // Whoever merely looks changes nothing.
    for (const _ of [1, 2]) await load()
    return (await trustQuestion(userConfigDir, project)).trust
  }
  expect(await stateAfter(file('ours', [item('a.test', 'x')]))).toBe('trusted')
  expect(await stateAfter(file('theirs', [item('a.test', 'x')]))).toBe('changed')
  expect(await stateAfter(file('ours', [item('a.test', 'y')]))).toBe('changed')
  // Nor does the text that was trusted once bring back what was taken out.
  await writeFile(projectFile(), both)
  expect((await trustQuestion(userConfigDir, project)).trust).toBe('changed')
  expect((await load()).sandboxApprovedEscalations).toEqual([])
})

test('a .worktreeinclude is trusted by its text, with or without a config beside it', async () => {
  const list = join(project, '.worktreeinclude')
  const trust = async () => {
    const { sha256 } = await trustQuestion(userConfigDir, project)
    await trustProject(userConfigDir, project, { sha256: sha256!, by: 'person', at })
  }
  const isTrusted = () => isIncludeTrusted(userConfigDir, project)
  await mkdir(join(project, '.git'))
  await writeFile(list, '.env\n')
  expect(await isTrusted()).toBe(false)
  expect(await trustQuestion(userConfigDir, project)).toMatchObject({
    file: list,
    trust: 'untrusted',
    now: '.env\n',
  })
  await trust()
  expect(await isTrusted()).toBe(true)
  expect(await trustQuestion(userConfigDir, project)).toMatchObject({ trust: 'trusted' })

  await writeFile(projectFile(), '{ "sandboxBoundaries": { "build": "network" } }')
  expect((await trustQuestion(userConfigDir, project)).trust).toBe('changed')
  expect((await load()).projects[0]?.trust).toBe('untrusted')
  const shown = await trustQuestion(userConfigDir, project)
  expect(shown.now).toContain('--- .worktreeinclude ---\n.env')
  await writeFile(list, '.env\nkeys\n')
  expect(await isTrusted()).toBe(false)
  await expect(
    trustProject(userConfigDir, project, { sha256: shown.sha256!, by: 'person', at }),
  ).rejects.toMatchObject({ code: 'config.moved' })
  await trust()
  expect(await isTrusted()).toBe(true)
  expect((await load()).projects[0]?.trust).toBe('trusted')
  expect(await distrustProject(userConfigDir, project)).toBe(true)
  expect(await isTrusted()).toBe(false)
})

test('revoking takes the approval out of every file, with the comments around it kept', async () => {
  await writeFile(projectFile(), commented)
  await save('project')
  await save('user')
  const id = (await load()).sandboxApprovedEscalations.find(({ agent }) => agent === 'claude')!.id
  const revoked = await revokeApproval(userConfigDir, [project], id)
  expect(revoked.map(({ file }) => file)).toEqual([userFile(), projectFile()])
  const text = await readFile(projectFile(), 'utf8')
  expect(text).toContain('// since March')
  expect(text).not.toContain('claude')
  expect(await revokeApproval(userConfigDir, [project], id)).toEqual([])
})

test('with roots in two projects an approval is saved to both', async () => {
  const other = join(home, 'other')
  await mkdir(other)
  await save('project', [approval()], [project, other])
  const config = await load([project, other])
  expect(config.sandboxApprovedEscalations.map(({ covers }) => covers)).toEqual([[project], [other]])
})

test('an approval that cannot be saved in one of several projects is saved in none, and counts in none', async () => {
  const [kept, other] = [join(home, 'kept'), join(home, 'other')]
  await mkdir(kept)
  await mkdir(join(other, '.orangery.json'), { recursive: true })
  await writeFile(join(kept, '.orangery.json'), commented)
  await expect(save('project', [approval()], [project, kept, other])).rejects.toThrow(
    join(other, '.orangery.json'),
  )
  expect(await readdir(project)).toEqual([])
  expect(await readFile(join(kept, '.orangery.json'), 'utf8')).toBe(commented)
  await rm(join(other, '.orangery.json'), { recursive: true })
  // Nobody's word stays behind for whoever writes the same text himself.
  await writeFile(projectFile(), JSON.stringify({ sandboxApprovedEscalations: [approval()] }))
  expect((await load()).sandboxApprovedEscalations).toEqual([])
  await save('project', [approval()], [project, kept, other])
  expect((await load([project, kept, other])).sandboxApprovedEscalations).toHaveLength(3)
})

test('an approval that cannot be saved is told with the folder and the way out', async () => {
  await writeFile(join(home, 'file'), '')
  userConfigDir = join(home, 'file', 'config')
  await expect(save('user')).rejects.toMatchObject({
    code: 'config.unwritable',
    kind: 'cannot_create',
    message: expect.stringContaining(join(home, 'file')) as string,
    hint: expect.stringContaining('without --save') as string,
  })
})

test('a file that an agent overwrites while an approval is saved or revoked is not trusted with it', async () => {
  const hostile = '{ "sandboxApprovedEscalations": [{ "agent": "*", "level": "full", "hosts": [] }] }'
  for (const change of [
    () => save('project', [approval('b.test')]),
    (id: string) => revokeApproval(userConfigDir, [project], id),
  ]) {
    await writeFile(projectFile(), commented)
    const { sha256 } = await trustQuestion(userConfigDir, project)
    await trustProject(userConfigDir, project, { sha256: sha256 ?? '', by: 'person', at })
    expect((await load()).projects[0]?.trust).toBe('trusted')
    const [known] = (await load()).sandboxApprovedEscalations
    const watcher = watch(project, (_event, name) => {
      if (name !== '.orangery.json') return
      watcher.close()
      writeFileSync(projectFile(), hostile)
    })
    await change(known?.id ?? '')
    watcher.close()
    await writeFile(projectFile(), hostile)
    const config = await load()
    expect(config.projects[0]?.trust).toBe('changed')
    expect(config.sandboxApprovedEscalations.some(({ level }) => level === 'full')).toBe(false)
  }
})
