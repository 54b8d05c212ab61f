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

test('an agent that runs and has written nothing yet is not told as one with nothing to land', async () => {
  await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
  const id = await bench.spawn('sleep 300', { worktree: 'feature' })
  await bench.running(id)
  await expect(bench.client.call('agent.land', { id, all: true, how: 'squash' })).rejects.toMatchObject({
    code: 'agent.still_running',
    exitCode: 75,
  })
  await bench.client.call('dispatch.kill', { id })
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

test('in a repository named by SHA-256 commits of the agent are merged, and none is told as not merged', async () => {
  await rm(join(bench.project, '.git'), { recursive: true })
  await git(bench.project, 'init', '-q', '-b', 'main', '--object-format=sha256')
  await git(bench.project, 'add', '-A')
  await git(bench.project, 'commit', '-qm', 'first')
  const { tree_path } = await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
  const script = 'echo 2 > a.txt; git -c user.name=a -c user.email=a@b commit -qam Inside'
  const id = await bench.spawn(script, { worktree: 'feature' })
  await bench.ended(id)
  const unimported = async () =>
    (await bench.client.call('changeset.get', { id })).dropped.filter(({ why }) => why.includes('imported'))
  expect(await unimported()).toEqual([])
  const landed = await bench.client.call('agent.land', { id, all: true, how: 'merge' })
  expect(landed).toMatchObject({ landed: true })
  expect(landed.notes ?? []).toEqual([])
  expect(await unimported()).toEqual([])
  expect(await git(tree_path, 'log', '--topo-order', '--format=%s', '--', 'a.txt')).toContain('Inside')
})

/** A commit on this branch whose tree has a folder `.git`: git takes no such object over. */
const commitUnsound = (ref: string) => `b=$(echo e | git hash-object -w --stdin)
  h=$(printf "100755 blob $b\\tx\\n" | git mktree); t=$(printf "040000 tree $h\\t.git\\n" | git mktree)
  git update-ref ${ref} $(git -c user.name=a -c user.email=a@b commit-tree -m Unsound -p HEAD $t)`
const commitGood = 'echo 2 > a.txt; git -c user.name=a -c user.email=a@b commit -qam Good'

for (const [how, after] of [
  ['loose', ''],
  ['packed', '; git gc -q'],
] as const) {
  test(`an unsound commit (${how}) on another branch hides no sound one, and is named wherever commits are`, async () => {
    await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
    const script = `${commitUnsound('refs/heads/other')}; ${commitGood}${after}`
    const id = await bench.spawn(script, { worktree: 'feature' })
    await bench.ended(id)
    const { commits, missing } = await bench.client.call('agent.get', { id })
    expect(commits.map(({ subject }) => subject)).toEqual(['Good'])
    const path = '.git/refs/heads/other'
    expect(missing).toContainEqual({ path, why: expect.stringContaining('not sound') })
    const { dropped } = await bench.client.call('changeset.get', { id })
    expect(dropped).toContainEqual(
      expect.objectContaining({ path, why: expect.stringContaining('were not imported') }),
    )
    const landed = await bench.client.call('agent.land', { id, all: true, how: 'merge' })
    expect(await git(landed.tree, 'log', '-1', '--format=%s', 'HEAD^2')).toBe('Good\n')
    expect(landed.notes).toContainEqual(expect.stringContaining(`not merged: ${path}`))
  })
}

test('a merge that lacks the commits of the agent, since none of them is sound, says so', async () => {
  await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
  const script = `${commitGood}; ${commitUnsound('HEAD')}`
  const id = await bench.spawn(script, { worktree: 'feature' })
  await bench.ended(id)
  const { commits, missing } = await bench.client.call('agent.get', { id })
  expect(commits).toEqual([])
  expect(missing.map(({ path }) => path)).toContain(`.git/refs/heads/agency/sandbox-${id}`)
  const landed = await bench.client.call('agent.land', { id, all: true, how: 'merge' })
  expect(await git(landed.tree, 'log', '-1', '--format=%P', 'HEAD')).toMatch(/^\w+\n$/)
  expect(landed.notes).toContainEqual(
    expect.stringContaining(`not merged: .git/refs/heads/agency/sandbox-${id}`),
  )
})

for (const how of ['merge', 'squash'] as const) {
  test(`the undo of a ${how} says that its commit stays and how to take it back, and lands again`, async () => {
    const { tree_path: tree } = await bench.client.call('worktree.create', {
      repo: bench.project,
      name: 'feature',
    })
    const id = await bench.spawn(`rm b.txt; echo '3  ' > c.txt; ${commitGood}`, { worktree: 'feature' })
    await bench.ended(id)
    const land = () => bench.client.call('agent.land', { id, all: true, how })
    const status = () => git(tree, 'status', '--short')
    const { commit } = await land()
    const undo = () => bench.client.call('changeset.undo', { id })
    await undo()
    expect(await status()).not.toBe('')
    // Straight after, nobody is blamed for what the undo left; the branch has all of it already.
    expect(await land()).toMatchObject({ landed: true, commit: null })
    expect(await status()).toBe('')
    const { notes = [] } = await undo()
    expect(notes).toEqual([expect.stringContaining(`${commit?.slice(0, 12)} stays on`)])
    // Whatever the user has git show him.
    const settings = [
      ['diff.noprefix', 'true'],
      ['diff.mnemonicPrefix', 'true'],
      ['diff.context', '0'],
      ['color.ui', 'always'],
      ['apply.whitespace', 'error'],
    ] as const
    for (const [name, value] of settings) await git(tree, 'config', name, value)
    // The control: what the user makes of such a file is his own.
    await writeFile(join(tree, 'a.txt'), 'mine\n')
    await expect(land()).rejects.toMatchObject({ code: 'workspace.own_work' })
    await writeFile(join(tree, 'a.txt'), '1\n')
    const takeBack = notes[0]?.split('takes it back there: ')[1] ?? ''
    await execute('sh', [
      '-c',
      `export GIT_AUTHOR_NAME=u GIT_AUTHOR_EMAIL=u@v GIT_COMMITTER_NAME=u GIT_COMMITTER_EMAIL=u@v; ${takeBack}`,
    ])
    for (const [name] of settings) await git(tree, 'config', '--unset', name)
    expect(await status()).toBe('')
    expect(await git(tree, 'ls-tree', '--name-only', 'HEAD')).toBe('a.txt\nb.txt\n')
    expect(await land()).toMatchObject({ landed: true, commit: expect.any(String) })
    expect(await git(tree, 'ls-tree', '--name-only', 'HEAD')).toBe('a.txt\nc.txt\n')
  })
}

test('an undo of the last part of a landing gives no line that takes back what landed before', async () => {
  const { tree_path: tree } = await bench.client.call('worktree.create', {
    repo: bench.project,
    name: 'feature',
  })
  const id = await bench.spawn('echo 2 > a.txt; echo 2 > b.txt', { worktree: 'feature' })
  await bench.ended(id)
  const decide = (path: string) => bench.client.call('changeset.decide', { id, path, verdict: 'approve' })
  const land = () => bench.client.call('agent.land', { id, all: false, how: 'squash' })
  await decide('a.txt')
  await land()
  await decide('b.txt')
  const { commit } = await land()
  const short = commit?.slice(0, 12)
  expect(await git(tree, 'show', '--name-only', '--format=', 'HEAD')).toBe('a.txt\nb.txt\n')
  const { notes } = await bench.client.call('changeset.undo', { id, last: true })
  expect(notes).toEqual([
    expect.stringContaining('what was applied before that stays'),
    expect.stringMatching(new RegExp(`the commit ${short} stays on \\S+, with what was not taken back$`)),
  ])
  expect(await git(tree, 'status', '--short')).toBe(' M b.txt\n')
  // The control: with the rest of it the whole commit can be taken back.
  const { notes: rest } = await bench.client.call('changeset.undo', { id })
  expect(rest).toEqual([expect.stringContaining(`${short} stays on`)])
  expect(rest?.[0]).toContain('takes it back there')
})

test('commits that a merge took are not told as unlanded when the sandbox comes back and is given up', async () => {
  await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
  const id = await bench.spawn(commitGood, { worktree: 'feature' })
  await bench.ended(id)
  await bench.client.call('agent.land', { id, all: true, how: 'merge' })
  await bench.client.call('archive.restore', { id })
  expect(await bench.client.call('agent.discard', { id })).toMatchObject({ files: 0, commits: 0 })
  // The control: a squash leaves them out.
  const other = await bench.spawn('echo 3 > a.txt; git -c user.name=a -c user.email=a@b commit -qam Other', {
    worktree: 'feature',
  })
  await bench.ended(other)
  await bench.client.call('agent.land', { id: other, all: true, how: 'squash' })
  await bench.client.call('archive.restore', { id: other })
  expect(await bench.client.call('agent.discard', { id: other })).toMatchObject({ commits: 1 })
})

test('of a landing and a discard at once one happens, and the other says what it was too late for', async () => {
  const { tree_path } = await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
  const id = await bench.spawn(commitGood, { worktree: 'feature' })
  await bench.ended(id)
  const [landing, discard] = await Promise.allSettled([
    bench.client.call('agent.land', { id, all: true, how: 'merge' }),
    bench.client.call('agent.discard', { id }),
  ])
  const hasLanded = (await readFile(join(tree_path, 'a.txt'), 'utf8')) === '2\n'
  const done = (each: PromiseSettledResult<unknown>) => each.status === 'fulfilled'
  expect([done(landing), done(discard)]).toEqual([hasLanded, !hasLanded])
})
