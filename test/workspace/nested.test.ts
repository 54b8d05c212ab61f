import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { git } from '../../src/engine/base/git.ts'
import { contentOf } from '../../src/engine/workspace/end/archive.ts'
import { fingerprint, gitText, makeFeature, type Feature } from '../../src/engine/workspace/fixture.ts'
import {
  discardAgent,
  expireArchive,
  ownStakes,
  removeIntegration,
  restoreArchived,
} from '../../src/engine/workspace/index.ts'
import { execute } from '../dispatch/harness.ts'

let { ground, repo, worktree, start } = {} as Feature
beforeEach(async () => {
  ;({ ground, repo, worktree, start } = await makeFeature())
})
afterEach(() => ground[Symbol.asyncDispose]())

const refusal = { code: 'workspace.worktree_inside', exitCode: 75 }

/** A worktree of the user's with a commit on no branch and a file that is not committed. */
async function plant(from: string, path: string): Promise<string> {
  await git(['-C', from, 'worktree', 'add', '-q', '--detach', path])
  await writeFile(join(path, 'work'), 'work')
  await git(['-C', path, 'add', '-A'])
  await git(['-C', path, 'commit', '-q', '-m', 'On no branch'])
  await writeFile(join(path, 'precious'), 'precious')
  return path
}

test('a tree in which a worktree of the user lies is not put away, with or without force, and says what to do', async () => {
  const tree = worktree.tree_path
  const nested = await plant(repo, join(tree, 'deep', 'er', 'nested'))
  const before = await fingerprint(tree)
  for (const force of [false, true]) {
    await expect(removeIntegration(ground.layout, worktree.worktree_id, { force })).rejects.toMatchObject({
      ...refusal,
      message: expect.stringContaining(nested) as unknown,
      hint: expect.stringContaining(`worktree move ${nested}`) as unknown,
      details: { worktrees: [nested] },
    })
  }
  expect(await fingerprint(tree)).toBe(before)
  expect(await gitText(repo, 'worktree', 'list')).not.toContain('prunable')
  // What the hint says helps.
  const elsewhere = ground.path('elsewhere')
  await execute('git', ['-C', join(repo, '.git'), 'worktree', 'move', nested, elsewhere])
  await removeIntegration(ground.layout, worktree.worktree_id, { force: true })
  expect(await readFile(join(elsewhere, 'precious'), 'utf8')).toBe('precious')
})

test('a sandbox in whose tree a worktree of the user lies is not discarded, also where its record is torn or the worktree is of another repository', async () => {
  const other = await ground.repo('other')
  for (const from of [repo, other]) {
    const meta = await start()
    const { layout } = ground
    const id = meta.invocation_id
    const nested = await plant(from, join(meta.sandbox_path, 'nested'))
    const before = await fingerprint(meta.sandbox_path)
    await expect(discardAgent(layout, id)).rejects.toMatchObject(refusal)
    const record = layout.invocationMeta(worktree.repo_id as never, id)
    const text = await readFile(record)
    await writeFile(record, '{')
    await expect(discardAgent(layout, id)).rejects.toMatchObject(refusal)
    await writeFile(record, text)
    expect(await fingerprint(meta.sandbox_path)).toBe(before)
    await git(['-C', from, 'worktree', 'remove', '--force', nested])
    await discardAgent(layout, id)
  }
})

test('a repository in the tree is named with its commits, goes to the archive as files and comes back', async () => {
  const tree = worktree.tree_path
  const own = join(tree, 'own')
  await mkdir(own)
  await git(['init', '-q', '-b', 'main', own])
  await writeFile(join(own, 'file'), 'text')
  await git(['-C', own, 'add', '-A'])
  await git(['-C', own, 'commit', '-q', '-m', 'Only in there'])
  const id = worktree.worktree_id
  await expect(removeIntegration(ground.layout, id)).rejects.toMatchObject({
    exitCode: 77,
    message: expect.stringMatching(/own\/ \(a repository\): [0-9a-f]{7} Only in there/) as unknown,
  })
  const removed = await removeIntegration(ground.layout, id, { force: true })
  expect(removed.notes?.join()).toContain('git could not hold own/')
  await restoreArchived(ground.layout, id)
  expect(await gitText(own, 'log', '--format=%s')).toBe('Only in there')

  const meta = await start()
  await rename(own, join(meta.sandbox_path, 'own'))
  expect((await ownStakes(meta)).unmerged.join()).toContain('Only in there')
})

test('a worktree of the user in the archive is not destroyed when its time is over, whether git knows it there or where it was', async () => {
  const { layout } = ground
  const id = worktree.worktree_id
  const nested = await plant(repo, ground.path('nested'))
  await removeIntegration(layout, id, { force: true })
  const content = contentOf(layout, id)
  const link = join(repo, '.git', 'worktrees', basename(nested), 'gitdir')
  await rename(nested, join(content, 'nested'))
  const later = Date.now() + 100 * 24 * 60 * 60 * 1000
  for (const place of [worktree.tree_path, content]) {
    await writeFile(link, `${join(place, 'nested', '.git')}\n`)
    const kept: unknown[] = []
    expect(await expireArchive(layout, later, (_, why) => void kept.push(why))).toEqual([])
    expect(kept).toMatchObject([{ code: 'workspace.worktree_inside' }])
  }
  expect(await readFile(join(content, 'nested', 'precious'), 'utf8')).toBe('precious')
  // Git forgot it, so that nobody's checkout is in there any more.
  await rm(join(content, 'nested'), { recursive: true })
  await git(['-C', repo, 'worktree', 'prune'])
  expect(await expireArchive(layout, later)).toHaveLength(1)
})
