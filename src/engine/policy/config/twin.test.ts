import { mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { git } from '../../base/git.ts'
import { revokeApproval, saveApprovals } from './edit.ts'
import { distrustProject, trustProject, trustQuestion } from './trusting.ts'
import { loadConfig } from './load.ts'

let home: string
let main: string
let tree: string
let userConfigDir: string
const at = new Date('2026-01-01T12:00:00Z')

beforeEach(async () => {
  home = await realpath(await mkdtemp(join(tmpdir(), 'orangery-twin-')))
  ;[main, tree, userConfigDir] = [join(home, 'main'), join(home, 'tree'), join(home, 'config')]
  await git(['init', '-q', main])
  const name = ['-c', 'user.name=a', '-c', 'user.email=a@b.test']
  await git([...name, 'commit', '-q', '--allow-empty', '-m', 'one'], { cwd: main })
  await git(['worktree', 'add', '-q', '--detach', tree], { cwd: main })
})
afterEach(() => rm(home, { recursive: true, force: true }))

const load = (root: string) => loadConfig({ userConfigDir, roots: [root] })
const own = (root: string, config: object) => writeFile(join(root, '.orangery.json'), JSON.stringify(config))
async function trust(root: string): Promise<void> {
  const { sha256 } = await trustQuestion(userConfigDir, root)
  await trustProject(userConfigDir, root, { sha256: sha256!, by: 'person', at })
}
const wide = { sandboxBoundaries: { build: 'network' } }
const approval = { agent: 'claude', level: 'network' as const, hosts: ['a.test'] }
const save = (root: string) =>
  saveApprovals({ userConfigDir, scope: 'project', approvals: [approval], roots: [root], by: 'you', at })
const coversOf = async (root: string) =>
  (await load(root)).sandboxApprovedEscalations.map(({ covers }) => covers)

test('the text that was trusted in one worktree is trusted in the others of the repository, and no other text', async () => {
  await own(main, wide)
  await trust(main)
  expect(await load(tree)).toMatchObject({ sandboxBoundaries: { build: 'network' } })
  await own(tree, wide)
  expect((await load(tree)).projects).toMatchObject([
    { trust: 'trusted', file: join(tree, '.orangery.json') },
  ])
  await own(tree, { sandboxBoundaries: { build: 'full' } })
  expect(await load(tree)).toMatchObject({
    sandboxBoundaries: { build: 'readwrite' },
    projects: [{ trust: 'changed' }],
  })
  await trust(tree)
  expect((await load(main)).projects[0]?.trust).toBe('trusted')
  expect(await distrustProject(userConfigDir, tree)).toBe(true)
  expect((await load(main)).projects[0]?.trust).toBe('untrusted')
})

test('what is saved from a worktree is saved in the project’s own file, and counts in both until it is revoked', async () => {
  await own(tree, { agentInactivityTimeout: 5 })
  await save(tree)
  expect(await readFile(join(main, '.orangery.json'), 'utf8')).toContain('a.test')
  expect(await readFile(join(tree, '.orangery.json'), 'utf8')).not.toContain('a.test')
  expect(await coversOf(main)).toEqual([[main]])
  expect(await coversOf(tree)).toEqual([[tree]])
  await rm(join(tree, '.orangery.json'))
  expect(await coversOf(tree)).toEqual([[tree]])
  const id = (await load(tree)).sandboxApprovedEscalations[0]!.id
  expect(await revokeApproval(userConfigDir, [tree], id)).toHaveLength(1)
  expect([...(await coversOf(main)), ...(await coversOf(tree))]).toEqual([])
})

test('a checkout that only claims to be a worktree borrows no trust', async () => {
  await own(main, wide)
  await trust(main)
  await save(main)
  const hostile = join(home, 'hostile')
  const claims = [
    async () => writeFile(join(hostile, '.git'), `gitdir: ${join(main, '.git/worktrees/tree')}\n`),
    async () => {
      // A folder of its own that names both sides.
      const fake = join(hostile, 'fake')
      await mkdir(fake, { recursive: true })
      await writeFile(join(fake, 'HEAD'), 'ref: refs/heads/main\n')
      await writeFile(join(fake, 'commondir'), `${join(main, '.git')}\n`)
      await writeFile(join(fake, 'gitdir'), `${join(hostile, '.git')}\n`)
      await writeFile(join(hostile, '.git'), `gitdir: ${fake}\n`)
    },
    () => symlink(join(main, '.git'), join(hostile, '.git')),
    () => symlink(join(main, '.git/worktrees/tree'), join(hostile, '.git')),
    () => symlink(join(tree, '.git'), join(hostile, '.git')),
    () => ownGit(hostile, join(main, '.git')),
    () => ownGit(hostile, relative(join(hostile, '.git'), join(main, '.git'))),
  ]
  const borrowsNothing = async (folder: string) => {
    await writeFile(join(folder, '.orangery.json'), await readFile(join(main, '.orangery.json')))
    expect(await load(folder)).toMatchObject({
      sandboxBoundaries: { build: 'readwrite' },
      sandboxApprovedEscalations: [],
      projects: [{ trust: 'untrusted' }],
    })
  }
  for (const claim of claims) {
    await mkdir(hostile, { recursive: true })
    await claim()
    await borrowsNothing(hostile)
    await rm(hostile, { recursive: true })
  }
  // Also from inside the repository that it claims, and as its `.git` itself.
  const vendored = join(main, 'vendor/x')
  await mkdir(vendored, { recursive: true })
  await symlink('../../.git', join(vendored, '.git'))
  await borrowsNothing(vendored)
  await rm(join(vendored, '.git'))
  await ownGit(vendored, '../../../.git')
  await borrowsNothing(vendored)
  await borrowsNothing(join(main, '.git'))
  expect((await load(main)).projects).toMatchObject([{ trust: 'trusted' }])
})

/** A git folder in place, whose `commondir` names another. */
async function ownGit(folder: string, commonDir: string): Promise<void> {
  const own = join(folder, '.git')
  await mkdir(join(own, 'objects'), { recursive: true })
  await mkdir(join(own, 'refs'))
  await writeFile(join(own, 'HEAD'), 'ref: refs/heads/main\n')
  await writeFile(join(own, 'commondir'), `${commonDir}\n`)
}

test('an approval that was taken out of a file by hand does not come back with the text that was trusted', async () => {
  const trusted = { ...wide, sandboxApprovedEscalations: [approval] }
  await own(main, trusted)
  await trust(main)
  expect((await load(main)).sandboxApprovedEscalations).toHaveLength(1)
  await own(main, { ...wide, sandboxApprovedEscalations: [] })
  expect((await load(main)).projects[0]?.trust).toBe('trusted')
  await own(main, trusted)
  expect(await load(main)).toMatchObject({
    projects: [{ trust: 'changed' }],
    sandboxApprovedEscalations: [],
  })

  // Nor where more was changed along with it.
  await trust(main)
  expect((await load(main)).sandboxApprovedEscalations).toHaveLength(1)
  await own(main, { ...wide, agentInactivityTimeout: 60, sandboxApprovedEscalations: [] })
  expect((await load(main)).projects[0]?.trust).toBe('changed')
  await own(main, trusted)
  expect(await load(main)).toMatchObject({
    projects: [{ trust: 'changed' }],
    sandboxApprovedEscalations: [],
  })

  await own(main, {})
  await save(main)
  const text = await readFile(join(main, '.orangery.json'), 'utf8')
  await own(main, {})
  await load(main)
  await writeFile(join(main, '.orangery.json'), text)
  expect((await load(main)).sandboxApprovedEscalations).toEqual([])
})

test('what is revoked counts in no worktree, whichever of them it was trusted in, and comes back in none', async () => {
  const trusted = { ...wide, sandboxApprovedEscalations: [approval] }
  for (const [here, there] of [
    [main, tree],
    [tree, main],
  ] as const) {
    await own(main, trusted)
    await own(tree, trusted)
    await trust(here)
    expect(await coversOf(there)).toHaveLength(1)
    const { id } = (await load(there)).sandboxApprovedEscalations[0]!
    const revoked = await revokeApproval(userConfigDir, [there], id)
    expect(revoked.map(({ file }) => file).sort()).toEqual(
      [main, tree].map((root) => join(root, '.orangery.json')),
    )
    expect([...(await coversOf(main)), ...(await coversOf(tree))]).toEqual([])
    expect((await load(here)).projects[0]?.trust).toBe('trusted')
    for (const root of [main, tree]) {
      await own(root, trusted)
      expect(await coversOf(root)).toEqual([])
      await rm(join(root, '.orangery.json'))
    }
    await distrustProject(userConfigDir, main)
  }
})

test('an approval that was taken out of the main file does not come back through trust in another worktree, nor unseen from there', async () => {
  const trusted = { ...wide, sandboxApprovedEscalations: [approval] }
  const ways = [() => own(main, wide), () => rm(join(main, '.orangery.json'))]
  for (const [index, takeOut] of ways.entries()) {
    for (const lookedAt of [main, tree]) {
      await own(main, trusted)
      await own(tree, trusted)
      await trust(tree)
      expect(await coversOf(main)).toHaveLength(1)
      await own(tree, { agentInactivityTimeout: index })
      await takeOut()
      await load(lookedAt)
      await own(main, trusted)
      expect([...(await coversOf(main)), ...(await coversOf(tree))]).toEqual([])
      expect((await load(main)).projects[0]?.trust).toBe('changed')
      await trust(main)
      expect(await coversOf(main)).toHaveLength(1)
      await distrustProject(userConfigDir, main)
    }
  }
})

test('a file that was taken away and put back asks for its approvals again, and for nothing else', async () => {
  const file = join(main, '.orangery.json')
  const sub = join(main, 'sub')
  await mkdir(sub)
  for (const root of [main, sub]) {
    await own(main, { ...wide, sandboxApprovedEscalations: [approval] })
    await trust(main)
    const text = await readFile(file)
    expect(await coversOf(root)).toHaveLength(1)
    await rm(file)
    await load(root)
    await writeFile(file, text)
    expect(await load(root)).toMatchObject({
      projects: [{ trust: 'changed' }],
      sandboxApprovedEscalations: [],
    })
    await own(main, {})
    await save(root)
    const saved = await readFile(file)
    expect(await coversOf(root)).toHaveLength(1)
    await rm(file)
    await load(root)
    await writeFile(file, saved)
    expect(await coversOf(root)).toEqual([])
    await distrustProject(userConfigDir, main)
  }
  await own(main, wide)
  await trust(main)
  const text = await readFile(file)
  await rm(file)
  await load(main)
  await writeFile(file, text)
  expect((await load(main)).projects[0]?.trust).toBe('trusted')
})

test('a list of trusted projects that is a link, as in a folder of dotfiles, is read and stays one', async () => {
  await mkdir(userConfigDir)
  await writeFile(join(home, 'trust.json'), '{ "version": 1, "projects": {} }')
  await symlink(join(home, 'trust.json'), join(userConfigDir, 'trust.json'))
  await own(main, wide)
  await trust(main)
  expect((await load(main)).projects[0]?.trust).toBe('trusted')
  expect(await readFile(join(home, 'trust.json'), 'utf8')).toContain(main)
})

test('of approvals that came from the main worktree’s file it is said that they did', async () => {
  await own(main, { sandboxApprovedEscalations: [approval] })
  await trust(main)
  await own(tree, { agentInactivityTimeout: 5 })
  const { provenance, sandboxApprovedEscalations } = await load(tree)
  expect(sandboxApprovedEscalations).toHaveLength(1)
  const file = join(main, '.orangery.json')
  expect(provenance['sandboxApprovedEscalations']).toEqual([{ source: 'project', file, line: 1 }])
})

test('what the main worktree’s file forbids is not lifted by another file in a worktree that nobody trusts', async () => {
  const level = { hide: ['a'], deniedHosts: ['vault.test'] }
  await own(main, {
    sandboxApprovedEscalations: [approval],
    sandboxMaximumBoundary: 'network',
    sandboxLevels: { readwrite: level },
  })
  await trust(main)
  const held = { sandboxMaximumBoundary: 'network', sandboxLevels: { readwrite: level } }
  expect(await load(tree)).toMatchObject(held)
  await own(tree, {})
  expect(await load(tree)).toMatchObject({ ...held, sandboxApprovedEscalations: [approval] })
  // The control: a text of its own that is trusted is this checkout's word.
  await trust(tree)
  expect(await load(tree)).toMatchObject({
    sandboxMaximumBoundary: 'full',
    sandboxLevels: { readwrite: { hide: [] } },
  })
})
