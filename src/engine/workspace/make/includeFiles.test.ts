import { mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { git } from '../../base/git.ts'
import { gitText, makeFeature, type Feature } from '../fixture.ts'
import { startAgent } from './startAgent.ts'
import { createWorktree } from './worktree.ts'

let { ground, repo, worktree } = {} as Feature
beforeEach(async () => {
  ;({ ground, repo, worktree } = await makeFeature())
})
afterEach(() => ground[Symbol.asyncDispose]())

const commit = async (tree: string, message: string) => {
  await git(['-C', tree, 'commit', '-q', '-m', message])
  return gitText(tree, 'rev-parse', 'HEAD')
}

test('a file that the base still tracks stays as the branch has it, and creation says that it was not copied', async () => {
  for (const path of ['.env', 'settings']) await writeFile(join(repo, path), "the branch's")
  await mkdir(join(repo, 'local'))
  await writeFile(join(repo, 'local/file'), "the branch's")
  await writeFile(join(repo, '.gitignore'), '*.log\n')
  await git(['-C', repo, 'add', '-A'])
  const base = await commit(repo, 'Track them')
  await git(['-C', repo, 'rm', '-q', '--cached', '-r', '.env', 'settings', 'local'])
  for (const path of ['settings', 'local']) await rm(join(repo, path), { recursive: true })
  // What was a file is a folder by now, and the other way round.
  await mkdir(join(repo, 'settings'))
  const named = ['.env', 'debug.log', 'local', 'settings/mine']
  for (const path of named) await writeFile(join(repo, path), "the user's")
  for (const list of ['.gitignore', '.worktreeinclude'])
    await writeFile(join(repo, list), '.env\n*.log\nlocal\nsettings/\n')
  await git(['-C', repo, 'add', '.gitignore', '.worktreeinclude'])
  await commit(repo, 'Ignore them')

  const made = await createWorktree({ layout: ground.layout, repo, name: 'old', base, trusted: true })
  expect(made.notes).toEqual([
    'copied as .worktreeinclude asks: debug.log',
    'not copied, though .worktreeinclude names them, because the branch has its own there: .env, local, settings/mine',
  ])
  for (const path of ['.env', 'settings', 'local/file'])
    expect(await readFile(join(made.tree_path, path), 'utf8'), path).toBe("the branch's")
  expect(await gitText(made.tree_path, 'diff', 'HEAD')).toBe('')
  expect(await readFile(join(made.tree_path, 'debug.log'), 'utf8')).toBe("the user's")
})

test('what the branch does not ignore is not copied, though the other tree does, and creation says so', async () => {
  await writeFile(join(repo, '.gitignore'), '*.log\n')
  await symlink('src', join(repo, 'linked'))
  await git(['-C', repo, 'add', '-A'])
  const base = await commit(repo, 'Ignore less')
  await rm(join(repo, 'linked'))
  await mkdir(join(repo, 'linked'))
  await mkdir(join(repo, 'keys'))
  const secrets = ['.env', ':(top)x', 'keys/one\n\u00e9', 'linked/b.log', 'debug.log']
  for (const path of secrets) await writeFile(join(repo, path), "the user's")
  for (const list of ['.gitignore', '.worktreeinclude'])
    await writeFile(join(repo, list), '.env\nkeys/\n*.log\n:(top)x\n')
  await git(['-C', repo, 'add', '-A'])
  await commit(repo, 'Ignore more')

  const made = await createWorktree({ layout: ground.layout, repo, name: 'old', base, trusted: true })
  expect(made.notes).toEqual([
    'copied as .worktreeinclude asks: debug.log',
    'not copied, though .worktreeinclude names them, because the branch has its own there: linked/b.log',
    'not copied, though .worktreeinclude names them, because the branch does not ignore them: .env, :(top)x, keys/one\n\u00e9',
  ])
  expect(await gitText(made.tree_path, 'status', '--porcelain', '-uall')).toBe('')
  expect(await readdir(made.tree_path)).not.toContain('keys')
  // The control: where the branch ignores them they come along.
  const now = await createWorktree({ layout: ground.layout, repo, name: 'now', trusted: true })
  for (const path of secrets) expect(await readFile(join(now.tree_path, path), 'utf8')).toBe("the user's")
  expect(await gitText(now.tree_path, 'status', '--porcelain', '-uall')).toBe('')
})

test('an agent gets no file that only an edit of its integration tree ignores', async () => {
  const tree = worktree.tree_path
  for (const path of ['.gitignore', '.worktreeinclude']) await writeFile(join(tree, path), '.env\n')
  await writeFile(join(tree, '.env'), "the user's")
  const meta = await startAgent({ layout: ground.layout, worktree: 'feature', trusted: true })
  expect(await readdir(meta.sandbox_path)).not.toContain('.env')
  expect(meta.notes.join()).toContain('because the branch does not ignore them: .env')
})

test('an agent starts where a file was taken out of the index and the branch still has it', async () => {
  const tree = worktree.tree_path
  await writeFile(join(tree, '.env'), "the branch's")
  await git(['-C', tree, 'add', '.env'])
  await commit(tree, 'Track it')
  await git(['-C', tree, 'rm', '-q', '--cached', '.env'])
  for (const path of ['.gitignore', '.worktreeinclude']) await writeFile(join(tree, path), '.env\n')
  await writeFile(join(tree, '.env'), "the user's")
  const meta = await startAgent({ layout: ground.layout, worktree: 'feature', trusted: true })
  expect(await readFile(join(meta.sandbox_path, '.env'), 'utf8')).toBe("the branch's")
  expect(meta.notes.join()).toContain('because the branch has its own there: .env')
})

test('our marker is nothing to copy, whatever the list names: a sandbox is no integration tree', async () => {
  await writeFile(join(worktree.tree_path, '.worktreeinclude'), '*\n')
  const meta = await startAgent({ layout: ground.layout, worktree: 'feature', trusted: true })
  expect(await readdir(join(meta.sandbox_path, '.agency'))).toEqual(['SANDBOX_MARKER'])
  const near = worktree.tree_path
  const made = await createWorktree({ layout: ground.layout, repo: near, name: 'second', trusted: true })
  expect(made.notes.join()).not.toContain('.agency/')
})
