import { mkdir, readdir, readFile, rename, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { RepoId } from '../../src/shared/ids.ts'
import { git } from '../../src/engine/base/git.ts'
import { layout as layoutAt } from '../../src/engine/base/paths.ts'
import { contentOf } from '../../src/engine/workspace/end/archive.ts'
import { gitText, makeFeature, type Feature } from '../../src/engine/workspace/fixture.ts'
import {
  createWorktree,
  claimWorkspace,
  discardAgent,
  enterInvocation,
  findOrphans,
  layerPaths,
  loadWorkspace,
  ownStakes,
  removeIntegration,
  resolveInvocation,
  restoreArchived,
  stakesNotes,
  startAgent,
} from '../../src/engine/workspace/index.ts'

let { ground, repo, worktree, start } = {} as Feature
beforeEach(async () => {
  ;({ ground, repo, worktree, start } = await makeFeature())
})
afterEach(() => ground[Symbol.asyncDispose]())

/** What git can put into no commit, beside what it can. */
async function plantEmptyRepository(tree: string): Promise<void> {
  await git(['init', '-q', join(tree, 'nested')])
  await writeFile(join(tree, 'nested', 'inside.txt'), 'inside')
  await writeFile(join(tree, 'beside.txt'), 'beside')
}

test('a repository without a commit in the tree is put away as files, named, and holds nothing up', async () => {
  const meta = await start()
  await plantEmptyRepository(meta.sandbox_path)
  const discarded = await discardAgent(ground.layout, meta.invocation_id)
  expect(discarded.notes?.join()).toContain('nested/')
  const kept = join(contentOf(ground.layout, meta.invocation_id), 'tree', 'nested')
  expect(await readFile(join(kept, 'inside.txt'), 'utf8')).toBe('inside')
  expect(await gitText(repo, 'show', `refs/orangery/archive/${meta.invocation_id}:beside.txt`)).toBe('beside')

  await plantEmptyRepository(worktree.tree_path)
  const id = worktree.worktree_id
  const removed = await removeIntegration(ground.layout, id, { force: true })
  expect(removed.notes?.join()).toContain('nested/')
  await restoreArchived(ground.layout, id)
  expect(await readFile(join(worktree.tree_path, 'nested', 'inside.txt'), 'utf8')).toBe('inside')
})

test('a sandbox in which something runs is not discarded, also where its record is torn meanwhile', async () => {
  const { invocation_id: id } = await start()
  const { layout } = ground
  const repoId = worktree.repo_id as RepoId
  const workspace = await loadWorkspace(layout, repoId, id)
  await writeFile(layout.invocationMeta(repoId, id), '{')
  {
    await using _running = await claimWorkspace(layout, workspace)
    await expect(discardAgent(layout, id)).rejects.toMatchObject({ code: 'workspace.in_use', exitCode: 75 })
    expect(await readdir(layout.sandboxTree(repoId, id))).toContain('a.txt')
  }
  // The control: once it has ended, the same word puts it away.
  expect((await discardAgent(layout, id)).archive).not.toBeNull()
})

test('an invocation whose record cannot be understood is no orphan once it was discarded, and is one again when restored', async () => {
  const { invocation_id: id, sandbox_path: tree } = await start()
  const record = ground.layout.invocationMeta(worktree.repo_id as RepoId, id)
  await writeFile(record, '{ torn')
  expect(await findOrphans(ground.layout)).toMatchObject([{ id, kind: 'sandbox_without_record' }])
  await discardAgent(ground.layout, id)
  expect(await findOrphans(ground.layout)).toEqual([])
  await restoreArchived(ground.layout, id)
  expect(await readFile(record, 'utf8')).toBe('{ torn')
  expect(await readFile(join(tree, 'a.txt'), 'utf8')).toBe('one\n')
  expect(await findOrphans(ground.layout)).toMatchObject([{ id, kind: 'sandbox_without_record' }])
})

test('what is at stake in a sandbox is named: commits and edits of the user, and what lies in its layer', async () => {
  const meta = await start()
  const tree = meta.sandbox_path
  expect(stakesNotes(await ownStakes(meta))).toEqual([])
  await writeFile(join(tree, 'a.txt'), 'mine')
  await git(['-C', tree, 'commit', '-qam', 'My own'])
  await writeFile(join(tree, 'src', 'b.txt'), 'not committed')
  expect(stakesNotes(await ownStakes(meta))).toEqual([
    expect.stringMatching(/^your own commits in the sandbox: [0-9a-f]+ My own$/),
    'files you changed in the sandbox and did not commit: src/b.txt',
  ])
  const mount = meta.roots[0]?.mount
  await mkdir(join(mount?.kind === 'overlay' ? mount.upper : '', 'new'), { recursive: true })
  await writeFile(join(mount?.kind === 'overlay' ? mount.upper : '', 'new', 'file'), '')
  expect(await layerPaths(meta)).toEqual(['new/file'])
})

test('records that name their trees by a link leave neither branch nor worktree in the repository', async () => {
  await symlink(ground.layout.dataDir, ground.path('link'))
  const layout = layoutAt(ground.path('link'))
  const made = await createWorktree({ layout, repo, name: 'linked' })
  const meta = await startAgent({ layout, worktree: 'linked' })
  expect(meta.sandbox_path.startsWith(ground.path('link'))).toBe(true)
  await discardAgent(layout, meta.invocation_id)
  await restoreArchived(layout, meta.invocation_id)
  expect(await gitText(meta.sandbox_path, 'status', '--porcelain', '-b')).toBe(`## ${meta.sandbox_branch}`)
  await discardAgent(layout, meta.invocation_id)
  await removeIntegration(layout, 'linked', { force: true })
  expect(await gitText(repo, 'branch', '--list', meta.sandbox_branch ?? '', made.branch)).toBe('')
  const known = await gitText(repo, 'worktree', 'list', '--porcelain')
  expect(known.match(/^worktree .*$/gm)).toEqual([`worktree ${repo}`, `worktree ${worktree.tree_path}`])
})

test('a tree or sandbox that the user moved away and linked back is neither emptied nor called archived', async () => {
  const meta = await start()
  const other = await createWorktree({ layout: ground.layout, repo, name: 'other' })
  const places = [
    {
      at: other.tree_path,
      end: () => removeIntegration(ground.layout, other.worktree_id, { force: true }),
    },
    {
      at: dirname(meta.sandbox_path),
      end: () => discardAgent(ground.layout, meta.invocation_id),
    },
  ]
  for (const [number, { at, end }] of places.entries()) {
    const precious = join(repo, '..', `precious-${number}`)
    await rename(at, precious)
    await symlink(precious, at)
    await writeFile(join(precious, 'gold'), 'gold')
    const before = await readdir(precious)
    await expect(end()).rejects.toMatchObject({ code: 'workspace.linked_away', exitCode: 75 })
    expect(await readdir(precious)).toEqual(before)
    expect(await readdir(ground.layout.archive).catch(() => [])).toEqual([])
  }
})

test('a record that names a tree which is not its own is broken, and takes no tree of others away', async () => {
  const { layout } = ground
  const repoId = worktree.repo_id as RepoId
  const users = join(dirname(repo), 'users-own')
  await gitText(repo, 'worktree', 'add', '-q', users)
  for (const other of [worktree.tree_path, users]) {
    const meta = await start()
    const id = meta.invocation_id
    await writeFile(join(other, 'uncommitted.txt'), 'mine')
    await writeFile(join(meta.sandbox_path, 'work.txt'), 'the agent')
    await writeFile(layout.invocationMeta(repoId, id), JSON.stringify({ ...meta, sandbox_path: other }))
    expect(await resolveInvocation(layout, id)).toMatchObject({
      broken: true,
      why: `its meta.json names a tree that is not its own, ${other}`,
    })
    await expect(enterInvocation(layout, repoId, id, {})).rejects.toThrow('a tree that is not its own')
    await discardAgent(layout, id)
    expect(await readFile(join(other, 'uncommitted.txt'), 'utf8')).toBe('mine')
    expect(await gitText(repo, 'worktree', 'list')).toContain(other)
    expect(await readFile(join(contentOf(layout, id), 'tree', 'work.txt'), 'utf8')).toBe('the agent')
  }

  const second = await createWorktree({ layout, repo, name: 'second' })
  const path = layout.worktreeMeta(repoId, second.worktree_id)
  await writeFile(path, JSON.stringify({ ...second, tree_path: users }))
  await removeIntegration(layout, second.worktree_id, { force: true })
  expect(await readFile(join(users, 'uncommitted.txt'), 'utf8')).toBe('mine')
  expect(await gitText(repo, 'worktree', 'list')).toContain(users)
})

test('a data folder that is reached by another name is still the one of its records', async () => {
  const meta = await start()
  const other = `${ground.layout.dataDir}-link`
  await symlink(ground.layout.dataDir, other)
  expect(await resolveInvocation(layoutAt(other), meta.invocation_id)).toMatchObject({ broken: false })
})
