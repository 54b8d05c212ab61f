import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { git } from '../../base/git.ts'
import { gitText, Ground } from '../fixture.ts'
import { createWorktree, discardAgent, stakesOf, startAgent } from '../index.ts'

let ground: Ground
beforeEach(async () => {
  ground = await Ground.make()
})
afterEach(() => ground[Symbol.asyncDispose]())

const configure = (repo: string, key: string, value: string) => git(['-C', repo, 'config', key, value])

test('a repository that names another folder as its work tree has worktrees made and looked at in their own places', async () => {
  const { layout } = ground
  const home = await ground.folder('home')
  await writeFile(join(home, 'a.txt'), 'unsaved work\n')
  const repo = await ground.repo('repo')
  await configure(repo, 'extensions.worktreeConfig', 'true')
  await configure(repo, 'core.worktree', home)
  const worktree = await createWorktree({ layout, repo, name: 'w' })
  const sandbox = await startAgent({ layout, worktree: 'w' })
  for (const tree of [worktree.tree_path, sandbox.sandbox_path])
    expect(await readFile(join(tree, 'a.txt'), 'utf8')).toBe('one\n')
  await writeFile(join(worktree.tree_path, 'mine.txt'), 'mine\n')
  expect((await stakesOf(worktree)).uncommitted).toEqual(['mine.txt'])
  await discardAgent(layout, sandbox.invocation_id)
  expect(await readdir(home)).toEqual(['a.txt'])
  expect(await readFile(join(home, 'a.txt'), 'utf8')).toBe('unsaved work\n')
})

test('a submodule with a configuration for each worktree gets none of its own files among its hooks', async () => {
  const source = await ground.repo('source', { 'hooks/post-commit': '#!/bin/sh\n' })
  const above = await ground.repo('above')
  await git(['-C', above, '-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', source, 'sub'])
  const sub = join(above, 'sub')
  await configure(sub, 'extensions.worktreeConfig', 'true')
  const worktree = await createWorktree({ layout: ground.layout, repo: sub, name: 'w' })
  expect(await readdir(join(worktree.tree_path, 'hooks'))).toEqual(['post-commit'])
  expect(await readdir(join(above, '.git/modules/sub/hooks')).catch(() => [])).not.toContain('post-commit')
})

test('a bare repository with a configuration for each worktree gets a worktree', async () => {
  const bare = ground.path('bare.git')
  await git(['clone', '-q', '--bare', await ground.repo('repo'), bare], {
    env: { GIT_ALLOW_PROTOCOL: 'file' },
  })
  await git(['--git-dir', bare, 'config', 'extensions.worktreeConfig', 'true'])
  const worktree = await createWorktree({ layout: ground.layout, repo: bare, name: 'w' })
  expect(await gitText(worktree.tree_path, '--work-tree=.', 'status', '--porcelain')).toBe('')
})
