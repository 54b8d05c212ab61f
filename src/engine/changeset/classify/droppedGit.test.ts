import { lstatSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { fromText } from '../bytePath.ts'
import { droppedInGitRoot } from './droppedGit.ts'
import { Bench } from '../testing.ts'

test("what an agent wrote into a worktree's common git folder is told as the project's, without its own checkout's state", async () => {
  await using bench = await Bench.make()
  const at = async (path: string) => {
    await mkdir(dirname(join(bench.root, path)), { recursive: true })
    await writeFile(join(bench.root, path), 'x')
    return { path: fromText(path), result: lstatSync(join(bench.root, path), { bigint: true }), base: null }
  }
  const written = ['hooks/post-merge', 'info/exclude', 'refs/tags/t', 'objects/aa/bb', 'objects/aa/cc']
  const own = ['worktrees/tree/index', 'worktrees/tree/logs/HEAD', 'worktrees/tree/config.worktree']
  const seen = await Promise.all([...written, ...own].map(at))
  const mount = { kind: 'bind' as const, source: bench.root }
  const root = {
    path: '/repo/.git',
    target: '/repo/.git',
    name: '.git',
    role: 'git',
    access: 'rw',
    mount,
  } as const
  const dropped = droppedInGitRoot('/tree', { root, seen, unreadable: [] })
  expect(dropped.every((each) => each.root === '/tree')).toBe(true)
  expect(dropped.map(({ path }) => path).toSorted()).toEqual([
    '.git/hooks/post-merge',
    '.git/info/exclude',
    '.git/objects',
    '.git/refs/tags/t',
    '.git/worktrees/tree/config.worktree',
  ])
})

test('a new branch for a commit that was there already is no change, and one for a new commit is', async () => {
  await using bench = await Bench.make()
  const identity =
    'export GIT_AUTHOR_NAME=u GIT_AUTHOR_EMAIL=u@x GIT_COMMITTER_NAME=u GIT_COMMITTER_EMAIL=u@x'
  const commit = 'git commit -q --allow-empty -m more'
  await bench.user(`${identity}; git init -q; ${commit}; ${commit}`)
  await bench.dispatch('git branch older HEAD~1')
  expect(await bench.changesets.list()).toEqual([])
  await bench.dispatch(`${identity}; git switch -q -c newer; ${commit}`)
  expect(await bench.changesets.list()).toHaveLength(1)
})

test('a marker that an agent makes never lands and is told, in whichever folder; one of ours is not', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir .agency; echo ours > .agency/SANDBOX_MARKER')
  const { id } = await bench.dispatch(
    'echo forged > .agency/SANDBOX_MARKER; echo x > .agency/INTEGRATION_MARKER; mkdir -p deep/.agency other; echo x > deep/.agency/SANDBOX_MARKER; echo x > deep/.agency/notes; ln -s .. other/.agency',
  )
  const changeset = await bench.changesets.get(id)
  expect(changeset.files.map(({ path }) => path)).toEqual(['deep/.agency/notes', 'other'])
  expect(changeset.dropped.map(({ path, why }) => `${path} ${why}`).toSorted()).toEqual(
    ['.agency/INTEGRATION_MARKER', 'deep/.agency/SANDBOX_MARKER', 'other/.agency'].map(
      (path) => `${path} only Orangery makes these: it never lands`,
    ),
  )
})
