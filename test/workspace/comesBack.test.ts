import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { git, tryGit } from '../../src/engine/base/git.ts'
import { gitText, makeFeature, type Feature } from '../../src/engine/workspace/fixture.ts'
import {
  borrowedNotes,
  checkBorrowed,
  discardAgent,
  findOrphans,
  identifyProject,
  lendObjects,
  listAgents,
  listArchive,
  listWorktrees,
  removeIntegration,
  restoreArchived,
} from '../../src/engine/workspace/index.ts'
import type { RestoreStep } from '../../src/engine/workspace/end/reattach.ts'

let { ground, repo, worktree, start, branches } = {} as Feature
beforeEach(async () => {
  ;({ ground, repo, worktree, start, branches } = await makeFeature())
})
afterEach(() => ground[Symbol.asyncDispose]())

/** Nothing of a restore is taken back, so that an error after a step leaves what a kill there leaves. */
const cutOffAfter = (step: RestoreStep) => (done: RestoreStep) => {
  if (done === step) throw new Error(`killed after ${step}`)
}

describe('a restore that is cut off', () => {
  test('leaves an integration worktree that the next one brings back too', async () => {
    const id = worktree.worktree_id
    await writeFile(join(worktree.tree_path, 'draft.txt'), 'precious')
    for (const step of ['content', 'git', 'record'] as const) {
      await removeIntegration(ground.layout, id, { force: true })
      await expect(restoreArchived(ground.layout, id, cutOffAfter(step))).rejects.toThrow(step)
      await restoreArchived(ground.layout, id)
      expect(
        (await listWorktrees(ground.layout)).map((entry) => entry.id),
        step,
      ).toEqual([id])
      expect(await gitText(worktree.tree_path, 'status', '--porcelain', '-b'), step).toBe(
        `## ${worktree.branch}\n?? draft.txt`,
      )
      expect(await listArchive(ground.layout)).toEqual([])
    }
    expect((await gitText(repo, 'worktree', 'list')).split('\n')).toHaveLength(2)
  })

  test('before its sandbox was used again costs that one none of its commits', async () => {
    const meta = await start()
    const id = meta.invocation_id
    await discardAgent(ground.layout, id)
    await expect(restoreArchived(ground.layout, id, cutOffAfter('record'))).rejects.toThrow('record')
    await git(['-C', meta.sandbox_path, 'commit', '-q', '--allow-empty', '-m', 'Since'])
    await restoreArchived(ground.layout, id)
    expect(await gitText(repo, 'log', '-1', '--format=%s', meta.sandbox_branch!)).toBe('Since')
    expect(await listArchive(ground.layout)).toEqual([])
  })
})

test('a sandbox whose tree is missing comes back as broken as it was, and is told once', async () => {
  const meta = await start()
  const id = meta.invocation_id
  for (const gone of [meta.sandbox_path, join(meta.sandbox_path, '..')]) {
    await rm(gone, { recursive: true, force: true })
    expect((await findOrphans(ground.layout)).map(({ kind, hint }) => [kind, hint])).toEqual([
      ['record_without_sandbox', `orangery agent discard ${id}`],
    ])
    await discardAgent(ground.layout, id)
    expect(await branches()).not.toContain('sandbox')
    await restoreArchived(ground.layout, id)
    expect(await branches()).toContain(meta.sandbox_branch)
    expect(await listAgents(ground.layout, { all: true })).toMatchObject([{ id, broken: true }])
  }
})

test('a branch that the user has checked out is left to them, and that is said', async () => {
  const meta = await start()
  const at = ground.path('mine')
  for (const branch of [meta.sandbox_branch!, worktree.branch]) {
    await git(['-C', repo, 'worktree', 'add', '-q', '--force', at, branch])
    const { notes } =
      branch === worktree.branch
        ? await removeIntegration(ground.layout, 'feature')
        : await discardAgent(ground.layout, meta.invocation_id)
    expect(notes).toEqual([`branch ${branch} stays: it is checked out in ${at}`])
    expect(await gitText(at, 'status', '-sb')).toBe(`## ${branch}`)
    expect(await findOrphans(ground.layout)).toEqual([])
    await git(['-C', repo, 'worktree', 'remove', at])
    await git(['-C', repo, 'branch', '-D', branch])
  }
})

test("a worktree's own refs and a rebase in progress are at stake, outlive a gc and come back", async () => {
  const tree = worktree.tree_path
  const commit = async (text: string) => {
    await writeFile(join(tree, 'a.txt'), text)
    await git(['-C', tree, 'commit', '-qam', text])
  }
  await git(['-C', tree, 'commit', '-q', '--allow-empty', '-m', 'Only in a ref'])
  await git(['-C', tree, 'update-ref', 'refs/worktree/keep', 'HEAD'])
  await git(['-C', tree, 'reset', '-q', '--hard', 'HEAD~'])
  await expect(removeIntegration(ground.layout, 'feature')).rejects.toMatchObject({
    code: 'workspace.work_at_stake',
    message: expect.stringContaining('Only in a ref'),
  })
  await git(['-C', tree, 'switch', '-qc', 'side'])
  await commit('theirs')
  await git(['-C', tree, 'switch', '-q', worktree.branch])
  await commit('mine')
  await git(['-C', tree, 'rebase', '-q', 'side']).catch(() => {})
  await expect(removeIntegration(ground.layout, 'feature')).rejects.toMatchObject({
    message: expect.stringContaining('a rebase in progress'),
  })
  await writeFile(await gitText(tree, 'rev-parse', '--git-path', 'info/exclude'), 'kept\nbuild/\n', {
    flag: 'a',
  })
  await mkdir(join(tree, 'build'))
  for (const name of ['kept', 'build/one']) await writeFile(join(tree, name), 'x')
  const { id, stakes } = await removeIntegration(ground.layout, 'feature', { force: true })
  expect(stakes.ignored).toEqual(['build/', 'kept'])
  expect(stakes.unfinished).toEqual(['a rebase in progress'])
  await git(['-C', repo, 'branch', '-D', 'side'])
  await git(['-C', repo, 'reflog', 'expire', '--expire=now', '--all'])
  await git(['-C', repo, 'prune', '--expire=now'])
  await restoreArchived(ground.layout, id)
  expect(await gitText(tree, 'log', '-1', '--format=%s', 'refs/worktree/keep')).toBe('Only in a ref')
  expect(await readdir(join(tree, 'build'))).toEqual(['one'])
  await writeFile(join(tree, 'a.txt'), 'both')
  await git(['-C', tree, 'add', 'a.txt'])
  await git(['-C', tree, '-c', 'core.editor=true', 'rebase', '--continue'])
  expect(await gitText(tree, 'log', '-2', '--format=%s', worktree.branch)).toBe('mine\ntheirs')
})

test('a worktree that holds nothing but what git ignores is not removed without a word, and that is named', async () => {
  await writeFile(await gitText(worktree.tree_path, 'rev-parse', '--git-path', 'info/exclude'), '*.env\n', {
    flag: 'a',
  })
  await writeFile(join(worktree.tree_path, 'secret.env'), 'x')
  await expect(removeIntegration(ground.layout, 'feature')).rejects.toMatchObject({
    code: 'workspace.work_at_stake',
    message: 'worktree feature: it holds what git ignores (secret.env)',
  })
})

test('a worktree that was removed while its repository was away comes back whole, with the repository or before it', async () => {
  const id = worktree.worktree_id
  const tree = worktree.tree_path
  await git(['-C', tree, 'commit', '-q', '--allow-empty', '-m', 'Mine'])
  for (const [name, text] of Object.entries({ 'added.txt': 'one', 'draft.txt': 'two' }))
    await writeFile(join(tree, name), text)
  await git(['-C', tree, 'add', 'added.txt'])
  const status = () => gitText(tree, 'status', '--porcelain', '-b')
  const before = await status()
  const away = ground.path('away')
  for (const when of ['before', 'after', 'pruned'] as const) {
    await rename(repo, away)
    await expect(removeIntegration(ground.layout, id)).rejects.toMatchObject({ kind: 'refused' })
    await removeIntegration(ground.layout, id, { force: true })
    if (when === 'before') await restoreArchived(ground.layout, id)
    await rename(away, repo)
    if (when === 'pruned') await git(['-C', repo, 'worktree', 'prune', '--expire=now'])
    if (when !== 'before') await restoreArchived(ground.layout, id)
    // What was staged is git's own to remember: after a prune only the files are left of it.
    expect(await status(), when).toBe(when === 'pruned' ? before.replace('A  added', '?? added') : before)
    if (when !== 'pruned') expect(before).toContain('A  added.txt')
    expect(await gitText(tree, 'log', '-1', '--format=%s')).toBe('Mine')
    expect(await listArchive(ground.layout)).toEqual([])
  }
})

test('an integration worktree whose tree was deleted by hand is ended by a command, its commits named and kept', async () => {
  const id = worktree.worktree_id
  await git(['-C', worktree.tree_path, 'commit', '-q', '--allow-empty', '-m', 'Only here'])
  await rm(worktree.tree_path, { recursive: true })
  const end = `orangery worktree rm ${id} --force`
  expect((await findOrphans(ground.layout)).map(({ kind, hint }) => [kind, hint])).toEqual([
    ['record_without_worktree', end],
  ])
  await expect(removeIntegration(ground.layout, id)).rejects.toMatchObject({
    code: 'workspace.work_at_stake',
    message: expect.stringContaining('Only here'),
  })
  await removeIntegration(ground.layout, id, { force: true })
  expect(await branches()).not.toContain(worktree.branch)
  expect((await gitText(repo, 'worktree', 'list')).split('\n')).toHaveLength(1)
  expect(await findOrphans(ground.layout)).toEqual([])
  expect(await listWorktrees(ground.layout)).toEqual([])
  await restoreArchived(ground.layout, id)
  expect(await gitText(repo, 'log', '-1', '--format=%s', worktree.branch)).toBe('Only here')
  expect(await listWorktrees(ground.layout, { all: true })).toMatchObject([{ id, broken: true }])
})

test('of objects that a repository borrows, a sandbox gets what its own refs reach and nothing else of the lender', async () => {
  const [clone, far] = [ground.path('clone'), ground.path('far')]
  await git(['-c', 'protocol.allow=always', 'clone', '-q', '--shared', repo, clone])
  await git(['-c', 'protocol.allow=always', 'clone', '-q', '--shared', clone, far])
  await git(['-C', repo, 'commit', '-q', '--allow-empty', '-m', 'Private'])
  const [known, secret] = await Promise.all([
    gitText(far, 'rev-parse', 'HEAD'),
    gitText(repo, 'rev-parse', 'HEAD'),
  ])
  const project = await identifyProject([far])
  const both = [join(clone, '.git/objects'), join(repo, '.git/objects')]
  const note = (await borrowedNotes(project)).join()
  for (const folder of both) expect(note).toContain(folder)
  expect(await checkBorrowed(project, 1)).toMatchObject({ ok: true })
  expect(await checkBorrowed(project, 2)).toMatchObject({ ok: false })
  for (let again = 0; again < 2; again += 1) {
    const lent = await lendObjects(ground.layout, project, expect.unreachable)
    expect(lent.map(({ target }) => target)).toEqual(both)
    const inCopy = (oid: string) => tryGit(['cat-file', '-e', oid], { gitDir: join(lent[0]!.source, '..') })
    expect((await inCopy(`${known}^{tree}`)).code).toBe(0)
    expect((await inCopy(secret)).code).not.toBe(0)
  }
  // Any other folder would have the copy laid over it.
  await writeFile(join(clone, '.git/objects/info/alternates'), '/etc\n')
  expect(await checkBorrowed(project, 1)).toMatchObject({ ok: false })
  expect(await lendObjects(ground.layout, project, expect.unreachable)).toEqual([])
  // A root that is named is shown.
  await writeFile(join(clone, '.git/objects/info/alternates'), `${join(repo, '.git/objects')}\n`)
  expect(await borrowedNotes(await identifyProject([far, clone, repo]))).toEqual([])
  expect(await checkBorrowed(await identifyProject([worktree.tree_path]), 1)).toMatchObject({ ok: true })
})

test('a checkout whose repository does not know it is told to have no git inside, and what to do', async () => {
  const [apart, checkout] = [ground.path('apart.git'), ground.path('checkout')]
  await git(['init', '-q', `--separate-git-dir=${apart}`, checkout])
  const notes = async (...paths: string[]) => borrowedNotes(await identifyProject(paths))
  expect(await notes(checkout)).toEqual([expect.stringContaining(`worktree create --repo ${apart}`)])
  // The controls: it is shown as a root too, or the repository names the checkout.
  expect(await notes(checkout, apart)).toEqual([])
  const linked = ground.path('linked')
  await git(['-C', repo, 'worktree', 'add', '-q', linked])
  expect(await notes(linked)).toEqual([])
})
