import { existsSync, writeFileSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { git } from '../../src/engine/base/git.ts'
import { moveCheckedOut } from '../../src/engine/base/moveBranch.ts'
import { run } from '../../src/engine/base/process.ts'
import { createChangesets } from '../../src/engine/changeset/changesets.ts'
import { watchedDisk } from '../../src/engine/changeset/disk.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'

const all = { all: true, include_ignored: true }
const setUp = 'git init -q -b main; git config user.name U; git config user.email u@x; seq 20 > a; git add .'
const work = 'sed -i s/^3$/three/ a; echo n > n'
const to = (branch: string, rest: object = {}) => ({
  ...all,
  commit: { branch, own: false, hooks: false, ...rest },
})
const gitIn = async (cwd: string, ...args: string[]) =>
  (await run('git', args, { cwd })).stdout.toString().trim()
const status = (bench: Bench) => gitIn(bench.root, 'status', '--porcelain')

test('a branch whose index is held by another git is refused before anything lands', async () => {
  await using bench = await Bench.make()
  await bench.user(`${setUp}; git commit -qm one; touch .git/index.lock`)
  const { id } = await bench.dispatch(work)
  const landing = bench.changesets.apply(id, to('main'), 'anna')
  await expect(landing).rejects.toMatchObject({ code: 'git.index_locked', kind: 'busy' })
  expect(existsSync(join(bench.root, 'n'))).toBe(false)
  expect(await gitIn(bench.root, 'log', '--format=%s')).toBe('one')
  await bench.user('rm .git/index.lock')
  expect((await bench.changesets.apply(id, to('main'), 'anna')).commit).toBeDefined()
  expect(await status(bench)).toBe('')
})

test('an index that is held once the files are there leaves the branch alone, and the commit can be had later', async () => {
  await using bench = await Bench.make()
  await bench.user(`${setUp}; git commit -qm one`)
  const { id } = await bench.dispatch(work)
  const { layout, store } = bench
  const lock = join(bench.root, '.git/index.lock')
  const disk = watchedDisk((operation) => {
    if (operation === 'link') writeFileSync(lock, '')
  })
  const beside = createChangesets({ layout, records: store.changesets, disk })
  const { commit, notes } = await beside.apply(id, to('main'), 'anna')
  expect(commit).toBeUndefined()
  expect(notes?.join()).toContain('no commit was made')
  expect(await gitIn(bench.root, 'log', '--format=%s')).toBe('one')
  await rm(lock)
  const again = await bench.changesets.apply(id, { ...to('main'), all: false }, 'anna')
  expect(again.commit?.oid).toBe(await gitIn(bench.root, 'rev-parse', 'main'))
  expect(await status(bench)).toBe('')
  expect((await bench.changesets.undo(id, 'anna')).notes?.join()).toContain('stays on main')
})

/** As a kill leaves it once the branch has moved: the note, git's lock and the branch; and nobody who could tidy up. */
async function killedMove(bench: Bench): Promise<string> {
  await bench.user(`${setUp}; echo s > s; git add s; git commit -qm one; echo staged > s; git add s`)
  const old = await gitIn(bench.root, 'rev-parse', 'main')
  await bench.user(`${work}; git stash -q; git stash apply -q --index`)
  const made = await gitIn(bench.root, 'commit-tree', '-p', old, '-m', 'two', await treeOf(bench))
  const killed = moveCheckedOut(bench.layout, {
    checkout: bench.root,
    ref: 'refs/heads/main',
    old,
    to: made,
    message: 'x',
    run: async (args, options) => {
      const done = await git(args, { cwd: bench.root, ...options })
      if (args[0] === 'update-ref') await new Promise(() => {})
      return done
    },
  })
  killed.catch(() => {})
  await expect.poll(() => gitIn(bench.root, 'rev-parse', 'main')).toBe(made)
  return made
}
async function nextStart(bench: Bench): Promise<void> {
  const program = `
    import { layout } from ${JSON.stringify(join(import.meta.dirname, '../../src/engine/base/paths.ts'))}
    import { finishAllMoves } from ${JSON.stringify(join(import.meta.dirname, '../../src/engine/base/moveBranch.ts'))}
    const place = layout(${JSON.stringify(bench.layout.dataDir)})
    await finishAllMoves({ ...place, locks: ${JSON.stringify(join(bench.folder, 'locks'))} })`
  await writeFile(join(bench.folder, 'next.mjs'), program)
  const next = await run(process.execPath, [join(bench.folder, 'next.mjs')], {})
  expect(next.code, next.stderr.toString()).toBe(0)
}

test('a move that was killed once the branch had moved is finished by the next start, the index with it and no filter run', async () => {
  await using bench = await Bench.make()
  const canary = join(bench.folder, 'canary')
  const filter = `git config filter.x.clean 'touch ${canary}; cat'; echo '* filter=x' > .git/info/attributes`
  await killedMove(bench)
  expect((await run('git', ['commit', '-qam', 'no'], { cwd: bench.root })).code).not.toBe(0)
  await bench.user(`${filter}; sed -i s/^4$/four/ a`)
  await nextStart(bench)
  expect(existsSync(canary)).toBe(false)
  expect(await gitIn(bench.root, 'diff', '--cached', '--name-only')).toBe('s')
  expect(existsSync(join(bench.root, '.git/index.lock'))).toBe(false)
  // The control: the user's own git does run it there.
  await status(bench)
  expect(existsSync(canary)).toBe(true)
})

test('a git that was killed while it wrote the next index keeps no move from its end, and nothing of it stays', async () => {
  await using bench = await Bench.make()
  await killedMove(bench)
  const ours = async () =>
    (await readdir(join(bench.root, '.git'))).filter((name) => name.includes('orangery-'))
  const [next = ''] = await ours()
  await writeFile(join(bench.root, '.git', `${next}.lock`), 'half an ind')
  await nextStart(bench)
  expect(await gitIn(bench.root, 'diff', '--cached', '--name-only')).toBe('s')
  expect(await ours()).toEqual([])
  expect(existsSync(join(bench.root, '.git/index.lock'))).toBe(false)
})

test('a note of a move that holds nothing is set aside, told in the log, and no landing waits for it', async () => {
  await using bench = await Bench.make()
  await bench.user(`${setUp}; git commit -qm one`)
  const { id } = await bench.dispatch(work)
  const folder = join(bench.layout.dataDir, 'moving')
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, '0123456789abcdef.json'), '')
  await bench.changesets.recover()
  expect((await bench.changesets.apply(id, to('main'), 'anna')).commit).toBeDefined()
  expect(await readdir(folder)).toEqual(['0123456789abcdef.json.broken'])
  expect(await readFile(bench.layout.log, 'utf8')).toContain('0123456789abcdef.json: not a note')
})

test('a killed move is finished once its checkout is there again, however often it was missed before', async () => {
  await using bench = await Bench.make()
  await killedMove(bench)
  const away = `${bench.root}.away`
  await rename(bench.root, away)
  await nextStart(bench)
  // Nor is another repository that lies there for a while the one it was about.
  await mkdir(bench.root)
  await gitIn(bench.root, 'init', '-q')
  await nextStart(bench)
  await rm(bench.root, { recursive: true })
  await rename(away, bench.root)
  await nextStart(bench)
  expect(await gitIn(bench.root, 'diff', '--cached', '--name-only')).toBe('s')
  expect(existsSync(join(bench.root, '.git/index.lock'))).toBe(false)
})

test('a move that somebody is at, or whose index cannot be read, keeps no start waiting and no files mixed', async () => {
  await using bench = await Bench.make(['project', 'second'])
  await killedMove(bench)
  await bench.user('cd ../second; seq 9 > b')
  const workspace = await bench.workspace([bench.roots[1]!])
  await bench.agent(workspace, 'sed -i s/^3$/three/ b; echo c > c')
  await bench.changesets.capture(workspace, { final: true })
  const { layout, store } = bench
  let isDead = false
  const disk = watchedDisk((operation) => {
    isDead ||= operation === 'link'
    if (isDead) throw Object.assign(new Error('EIO: injected'), { code: 'EIO' })
  })
  const dying = createChangesets({ layout, records: store.changesets, disk })
  await expect(dying.apply(workspace.id, all, 'anna')).rejects.toThrow()
  // Its lock is still held by the move above, as a slow hook would hold it.
  const began = performance.now()
  await bench.changesets.recover()
  expect(performance.now() - began).toBeLessThan(5000)
  await writeFile(join(bench.root, '.git/index'), 'damaged')
  await nextStart(bench)
  const [b, c] = ['b', 'c'].map((name) => existsSync(join(bench.folder, 'second', name)))
  const isNew = (await readFile(join(bench.folder, 'second/b'), 'utf8')).includes('three')
  expect([b, c]).toEqual([true, isNew])
})

test('a branch is committed to in a submodule, and where the git folder lies elsewhere', async () => {
  for (const made of ['git init -q -b main --separate-git-dir ../elsewhere', submodule]) {
    await using bench = await Bench.make(['outer/project'])
    await bench.user(`${made}; git config user.name U; git config user.email u@x; seq 20 > a; git add .
      git commit -qm one`)
    const { id } = await bench.dispatch(work)
    const { commit } = await bench.changesets.apply(id, to('main'), 'anna')
    expect(commit?.oid).toBe(await gitIn(bench.root, 'rev-parse', 'main'))
    expect(await status(bench)).toBe('')
  }
})
const submodule = `git init -q -b main ../../library; cd ../../library
  git -c user.name=U -c user.email=u@x commit -q --allow-empty -m none
  cd ../outer; rmdir project; git init -q -b main
  git -c protocol.file.allow=always submodule --quiet add ../library project; cd project`

test('a branch that is being rebased is not moved under the rebase', async () => {
  await using bench = await Bench.make()
  await bench.user(`${setUp}; git commit -qm one; git checkout -qb up; sed -i s/^1$/up/ a; git commit -qam up
    git checkout -q main; sed -i s/^1$/mine/ a; git commit -qam mine`)
  const { id } = await bench.dispatch('echo n > n')
  await bench.user('git rebase up || true')
  const landing = bench.changesets.apply(id, to('main'), 'anna')
  await expect(landing).rejects.toMatchObject({ code: 'git.branch_in_use', kind: 'input' })
  await bench.user('git rebase --abort')
  expect((await bench.changesets.apply(id, to('main'), 'anna')).commit).toBeDefined()
})

/** What main has, with the agent's work. */
async function treeOf(bench: Bench): Promise<string> {
  const env = { PATH: process.env['PATH'] ?? '', GIT_INDEX_FILE: join(bench.folder, 'other') }
  await run('git', ['read-tree', 'HEAD'], { cwd: bench.root, env })
  await run('git', ['add', 'a', 'n'], { cwd: bench.root, env })
  return (await run('git', ['write-tree'], { cwd: bench.root, env })).stdout.toString().trim()
}

test('a branch that another work tree is on is not moved under it', async () => {
  await using bench = await Bench.make()
  await bench.user(`${setUp}; git commit -qm one; git worktree add -q ../other -b side`)
  const { id } = await bench.dispatch(`git config user.name A; git config user.email a@x; ${work}; git add .
    git commit -qm agent`)
  for (const own of [false, true]) {
    const landing = bench.changesets.apply(id, to('side', { own }), 'anna')
    await expect(landing).rejects.toMatchObject({ code: 'git.branch_in_use', kind: 'input' })
  }
  expect(await gitIn(join(bench.folder, 'other'), 'status', '--porcelain')).toBe('')
  expect(await status(bench)).toBe('')
})

const crashes = [
  ['before', 'rmdir', /orangery-apply/],
  ['after', 'rename', /\.done\.json/],
] as const
/** Changesets of a process that does nothing more from that operation on. */
function dyingAt({ layout, store }: Bench, at: string, name: RegExp) {
  let isDead = false
  const disk = watchedDisk((operation, _, args) => {
    if (operation === at && args.some((arg) => name.test(String(arg)))) isDead = true
    if (isDead) throw Object.assign(new Error('EIO: injected'), { code: 'EIO' })
  })
  return createChangesets({ layout, records: store.changesets, disk })
}

test.each(crashes)(
  'a commit that was asked for is there after a crash %s it, and only once',
  async (when, at, name) => {
    await using bench = await Bench.make()
    await bench.user(`${setUp}; git commit -qm one`)
    const { id } = await bench.dispatch(work)
    await expect(dyingAt(bench, at, name).apply(id, to('main'), 'anna')).rejects.toMatchObject({
      code: 'changeset.record_behind',
    })
    const subjects = when === 'before' ? 'one' : `Apply changeset ${id}\none`
    expect(await gitIn(bench.root, 'log', '--format=%s')).toBe(subjects)
    await bench.changesets.recover()
    expect(await gitIn(bench.root, 'log', '--format=%s')).toBe(`Apply changeset ${id}\none`)
    expect(await status(bench)).toBe('')
    const made = await gitIn(bench.root, 'rev-parse', 'main')
    expect((await bench.changesets.get(id)).escalated).toBeNull()
    expect((await bench.changesets.undo(id, 'anna')).notes?.join()).toContain(made.slice(0, 12))
  },
)

test('a commit is as the caller says who he is, and says so where it is not signed', async () => {
  await using bench = await Bench.make()
  await bench.user(`git init -q -b main; echo a > a; git config commit.gpgsign true; git config gpg.program false
    git config user.useConfigOnly true; git -c user.name=U -c user.email=u@x commit -q --no-gpg-sign --allow-empty -m one`)
  const identity = { author_name: 'E', author_email: 'e@x', committer_name: 'F', committer_email: 'f@x' }
  const { id } = await bench.dispatch('echo b > b')
  const signed = bench.changesets.apply(id, to('main', { identity, sign: true }), 'anna')
  await expect(signed).rejects.toMatchObject({ code: 'changeset.commit_failed' })
  expect(existsSync(join(bench.root, 'b'))).toBe(false)
  const { notes } = await bench.changesets.apply(id, to('main', { identity }), 'anna')
  expect(notes?.join()).toContain('not signed')
  expect(await gitIn(bench.root, 'log', '-1', '--format=%an %ae %cn %ce')).toBe('E e@x F f@x')
})

const asAgent = 'git config user.name A; git config user.email a@x'
const ownWork = `${asAgent}; sed -i s/^3$/three/ a; git commit -qam c1; echo n > n; git add n; git commit -qm c2`
const own = (branch: string) => to(branch, { own: true })

test("the agent's own commits land on the branch that is checked out, with its index and beside what is staged", async () => {
  await using bench = await Bench.make()
  await bench.user(`${setUp}; echo s > s; git add s; git commit -qm one`)
  const { id } = await bench.dispatch(ownWork)
  await bench.user('echo staged >> s; git add s; sed -i s/^20$/mine/ a; touch .git/index.lock')
  const held = bench.changesets.apply(id, own('main'), 'anna')
  await expect(held).rejects.toMatchObject({ code: 'git.index_locked', kind: 'busy' })
  await bench.user('rm .git/index.lock')
  const { commit, notes } = await bench.changesets.apply(id, own('main'), 'anna')
  expect(notes).toBeUndefined()
  expect(commit?.oid).toBe(await gitIn(bench.root, 'rev-parse', 'main'))
  expect(await gitIn(bench.root, 'log', '--format=%s %an')).toBe('c2 A\nc1 A\none U')
  expect(await status(bench)).toBe('M a\nM  s')
  expect(await gitIn(bench.root, 'diff', '-U0', '--', 'a')).toMatch(/-20\n\+mine$/)
})

test("several commits of the agent's land on a branch that had none, and the index has all of them", async () => {
  await using bench = await Bench.make()
  await bench.user('git init -q -b main')
  const { id } = await bench.dispatch(
    `${asAgent}; echo 1 > a; git add a; git commit -qm c1; echo 2 > b; git add b; git commit -qm c2`,
  )
  await bench.changesets.apply(id, own('main'), 'anna')
  expect(await gitIn(bench.root, 'log', '--format=%s')).toBe('c2\nc1')
  expect(await status(bench)).toBe('')
})

test("the agent's commits are not put on a branch that moved on meanwhile, checked out or not", async () => {
  await using bench = await Bench.make()
  await bench.user(`${setUp}; git commit -qm one`)
  const { id } = await bench.dispatch(ownWork)
  await bench.user('git commit -q --allow-empty -m mine')
  const landing = bench.changesets.apply(id, own('main'), 'anna')
  await expect(landing).rejects.toMatchObject({ code: 'changeset.not_forward', kind: 'input' })
  expect(await status(bench)).toBe('')
})

test.each(crashes)(
  "the agent's own commits are on the checked out branch after a crash %s they got there",
  async (_when, at, name) => {
    await using bench = await Bench.make()
    await bench.user(`${setUp}; git commit -qm one`)
    const { id } = await bench.dispatch(ownWork)
    await expect(dyingAt(bench, at, name).apply(id, own('main'), 'anna')).rejects.toMatchObject({
      code: 'changeset.record_behind',
    })
    await bench.changesets.recover()
    expect(await gitIn(bench.root, 'log', '--format=%s')).toBe('c2\nc1\none')
    expect(await status(bench)).toBe('')
    expect((await bench.changesets.get(id)).escalated).toBeNull()
  },
)
