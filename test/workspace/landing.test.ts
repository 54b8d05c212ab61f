import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { DispatchId } from '../../src/shared/ids.ts'
import { Bench, execute, fingerprint } from '../dispatch/harness.ts'

let bench: Bench
const git = async (at: string, ...args: string[]) =>
  (await execute('git', ['-C', at, '-c', 'user.name=u', '-c', 'user.email=u@v', ...args])).stdout
beforeEach(async () => {
  bench = await Bench.create({ 'a.txt': '1\n', 'b.txt': '1\n' })
  await git(bench.project, 'init', '-q', '-b', 'main')
  await git(bench.project, 'add', '-A')
  await git(bench.project, 'commit', '-qm', 'first')
})
afterEach(() => bench[Symbol.asyncDispose]())

test('what has no integration worktree is refused before a file of the user is written', async () => {
  const id = await bench.spawn('echo 2 > a.txt')
  await bench.ended(id)
  const before = await fingerprint(bench.project)
  await expect(bench.client.call('agent.land', { id, all: true })).rejects.toMatchObject({ exitCode: 65 })
  expect(await fingerprint(bench.project)).toBe(before)
  // The control: it lands where it belongs.
  await bench.client.call('changeset.apply', { id, all: true })
  expect(await readFile(join(bench.project, 'a.txt'), 'utf8')).toBe('2\n')
})

test('an integration tree that left its branch is refused before a file is written', async () => {
  const { tree_path } = await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
  const id = await bench.spawn('echo 2 > a.txt', { worktree: 'feature' })
  await bench.ended(id)
  await git(tree_path, 'switch', '-q', '--detach')
  const land = () => bench.client.call('agent.land', { id, all: true, how: 'squash' })
  await expect(land()).rejects.toMatchObject({ code: 'workspace.branch_left' })
  expect(await readFile(join(tree_path, 'a.txt'), 'utf8')).toBe('1\n')
  await git(tree_path, 'switch', '-q', '-')
  expect(await land()).toMatchObject({ landed: true })
})

test('an integration tree whose index another git holds is refused before a file is written', async () => {
  const { tree_path } = await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
  const id = await bench.spawn('echo 2 > a.txt', { worktree: 'feature' })
  await bench.ended(id)
  const lock = (
    await git(tree_path, 'rev-parse', '--path-format=absolute', '--git-path', 'index.lock')
  ).trim()
  await writeFile(lock, '')
  const land = () => bench.client.call('agent.land', { id, all: true, how: 'squash' })
  await expect(land()).rejects.toMatchObject({ code: 'git.index_locked' })
  expect(await readFile(join(tree_path, 'a.txt'), 'utf8')).toBe('1\n')
  expect(await git(tree_path, 'log', '--format=%s')).toBe('first\n')
  await rm(lock)
  expect(await land()).toMatchObject({ landed: true })
  expect(await git(tree_path, 'status', '--short')).toBe('')
})

test('a landing in two parts is one commit of both, with names of any bytes', async () => {
  await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
  const script = `echo 2 > a.txt; echo 2 > b.txt; echo 3 > "$(printf 'caf\\351\\nx')"; git -c user.name=a -c user.email=a@b commit -qam Inside`
  const id = await bench.spawn(script, { worktree: 'feature' })
  await bench.ended(id)
  await bench.client.call('changeset.decide', { id, path: 'a.txt', verdict: 'approve' })
  const first = await bench.client.call('agent.land', { id, how: 'merge' })
  expect(first).toMatchObject({ landed: false, commit: null, applied: [{ path: 'a.txt' }] })
  expect(await git(first.tree, 'status', '--short')).toBe(' M a.txt\n')
  const second = await bench.client.call('agent.land', { id, how: 'merge', all: true })
  expect(second).toMatchObject({ landed: true })
  expect(await git(first.tree, 'status', '--short')).toBe('')
  expect(await git(first.tree, 'diff', '--stat', '--name-only', 'HEAD~', 'HEAD')).toBe(
    'a.txt\nb.txt\n"caf\\351\\nx"\n',
  )
  expect(await git(first.tree, 'log', '--topo-order', '--format=%s')).toMatch(/^Merge .*\nInside\nfirst\n$/)
  await expect(bench.client.call('agent.land', { id })).rejects.toMatchObject({ exitCode: 65 })
})

test('a landing whose rest was rejected, or is ignored by git, is committed and done with', async () => {
  await writeFile(join(bench.project, '.gitignore'), '*.log\n')
  await git(bench.project, 'add', '-A')
  await git(bench.project, 'commit', '-qm', 'second')
  await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
  const run = async (number: number) => {
    const script = `echo ${number} > a.txt; echo ${number} > b.txt; echo x > no.log; git -c user.name=a -c user.email=a@b commit -qam Inside${number}`
    const id = await bench.spawn(script, { worktree: 'feature' })
    await bench.ended(id)
    return id
  }
  const decide = (id: string, path: string, verdict: 'approve' | 'reject') =>
    bench.client.call('changeset.decide', { id: id as DispatchId, path, verdict })

  const one = await run(5)
  for (const path of ['a.txt', 'b.txt', 'no.log']) await decide(one, path, 'reject')
  for (const all of [true, false])
    await expect(bench.client.call('agent.land', { id: one, all })).rejects.toMatchObject({
      code: 'agent.all_rejected',
      exitCode: 77,
    })
  for (const path of ['b.txt', 'no.log'])
    await bench.client.call('changeset.decide', { id: one, path, verdict: null })
  await decide(one, 'a.txt', 'approve')
  expect(await bench.client.call('agent.land', { id: one })).toMatchObject({ landed: false, commit: null })
  await decide(one, 'b.txt', 'reject')
  await decide(one, 'no.log', 'reject')
  const done = await bench.client.call('agent.land', { id: one })
  expect(done).toMatchObject({ landed: true, applied: [] })
  expect(await git(done.tree, 'log', '--topo-order', '--format=%s')).toMatch(
    /^Merge .*\nInside5\nsecond\nfirst\n$/,
  )
  expect(await git(done.tree, 'status', '--short')).toBe('')
  expect(await git(done.tree, 'show', 'HEAD:a.txt')).toBe('5\n')
  expect(await bench.client.call('changeset.get', { id: one })).toMatchObject({ state: 'applied' })
  await expect(bench.client.call('agent.land', { id: one })).rejects.toMatchObject({ exitCode: 65 })

  const two = await run(6)
  const whole = await bench.client.call('agent.land', { id: two, all: true })
  expect(whole).toMatchObject({
    landed: true,
    skipped: [{ path: 'no.log' }],
    notes: [expect.stringContaining('git ignores')],
  })
  expect(await git(whole.tree, 'log', '-1', '--format=%s')).toMatch(/^Merge /)
})

test('a sandbox made for one dispatch that changed nothing goes with it, and one that was there before stays', async () => {
  await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
  const before = await git(bench.project, 'worktree', 'list')
  const branches = await git(bench.project, 'branch', '--list')
  const looked = await bench.spawn('git status --short; git log --oneline | cat', { worktree: 'feature' })
  expect(await bench.ended(looked)).toMatchObject({ status: 'completed', changeset: null })
  expect(await git(bench.project, 'worktree', 'list')).toBe(before)
  expect(await git(bench.project, 'branch', '--list')).toBe(branches)
  expect(await bench.client.call('archive.list', {})).toEqual([])
  expect(await bench.client.call('agent.list', {})).toEqual([])

  const { invocation_id: made } = await bench.client.call('agent.start', { worktree: 'feature' })
  await bench.ended(await bench.spawn('true', { invocation: made }))
  // The control: work that is only in git's own folder is kept too.
  const wrote = await bench.spawn('git tag kept', { worktree: 'feature' })
  await bench.ended(wrote)
  expect(await bench.client.call('agent.list', {})).toMatchObject([{ id: made, running: false }])
  const [worktree] = await bench.client.call('worktree.list', {})
  expect(worktree?.sandboxes).toEqual([{ id: made, name: '', status: 'completed', running: false }])
  expect(await bench.client.call('archive.list', {})).toMatchObject([{ id: wrote, why: 'disposed' }])
})

test('the markers are in no diff, no commit of everything and no changeset of an agent', async () => {
  await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
  const script =
    'git status --short; echo 2 > a.txt; git add -A; git -c user.name=a -c user.email=a@b commit -qm All; git show --stat --format= | cat; rm -r .agency; git status --short'
  const id = await bench.spawn(script, { worktree: 'feature' })
  await bench.ended(id)
  expect(await bench.output(id)).not.toMatch(/agency/i)
  const { files } = await bench.client.call('changeset.get', { id })
  expect(files.map(({ path }) => path)).toEqual(['a.txt'])
  const landed = await bench.client.call('agent.land', { id, all: true, how: 'merge' })
  expect(await git(landed.tree, 'ls-tree', '-r', '--name-only', 'HEAD')).toBe('a.txt\nb.txt\n')
  expect(await readFile(join(landed.tree, '.agency', 'INTEGRATION_MARKER'), 'utf8')).toContain('integration')
  for (const at of [landed.tree, bench.project]) expect(await git(at, 'status', '--short')).toBe('')
})
