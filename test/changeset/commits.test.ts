import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { run } from '../../src/engine/base/process.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'

const all = { all: true, include_ignored: true }
const setUp = 'git init -q -b main; git config user.name U; git config user.email u@x'
const asAgent = 'git config user.name A; git config user.email a@x'
const to = (branch: string, rest: { own?: boolean; hooks?: boolean } = {}) => ({
  ...all,
  commit: { branch, own: false, hooks: false, ...rest },
})
/** What is outside `.git`: objects that nothing points to harm nobody. */
const filesIn = async (bench: Bench) =>
  (await bench.snapshot())
    .split('\n')
    .filter((line) => !/(^| \.\/)\.git[ /]/.test(line))
    .join('\n')
const gitIn = async (cwd: string, ...args: string[]) =>
  (await run('git', args, { cwd })).stdout.toString().trim()

test("the agent's own commits become a branch only if nothing is in them that was not approved", async () => {
  await using bench = await Bench.make()
  await bench.user(`${setUp}; seq 9 > a; echo r > r; git add .; git commit -qm first`)
  const before = await filesIn(bench)
  const refused = async (id: Parameters<typeof bench.changesets.apply>[0], paths: string[]) => {
    const landing = bench.changesets.apply(id, to('own', { own: true }), 'anna')
    await expect(landing).rejects.toMatchObject({ kind: 'refused', details: { paths } })
    expect(await filesIn(bench)).toBe(before)
    expect(await gitIn(bench.root, 'branch', '--list', 'own')).toBe('')
  }
  const hidden = await bench.dispatch(`${asAgent}
    mkdir .vscode; echo '{}' > .vscode/tasks.json; echo evil > hidden.sh; echo x >> a; git add -A; git commit -qm one
    git rm -q hidden.sh; git commit -qm two`)
  await refused(hidden.id, ['.vscode/tasks.json', 'hidden.sh'])
  const rejected = await bench.dispatch(`${asAgent}; echo x >> a; echo x >> r; git commit -qam one`)
  await bench.changesets.decide(rejected.id, { path: 'r', verdict: 'reject' }, 'anna')
  await refused(rejected.id, ['r'])
  const other = await bench.dispatch(`${asAgent}; echo evil >> a; git commit -qam one; echo 10 > a`)
  await refused(other.id, ['a'])
  const plain = await bench.dispatch(`${asAgent}
    echo y >> a; git commit -qam one; echo z >> a; git commit -qam two; git switch -qc zoo; echo n > n; git add n
    git commit -qm three`)
  const { commit, notes } = await bench.changesets.apply(plain.id, to('own', { own: true }), 'anna')
  expect(notes).toBeUndefined()
  expect(commit?.oid).toBe(await gitIn(bench.root, 'rev-parse', 'own'))
  expect(await gitIn(bench.root, 'log', '--format=%s', 'own')).toBe('three\ntwo\none\nfirst')
})

test("approved files that are in none of the agent's own commits land and are named", async () => {
  await using bench = await Bench.make(['one', 'two'])
  await bench.user(`${setUp}; seq 9 > a; seq 9 > b; echo g > gone; git add .; git commit -qm first`)
  const { id } = await bench.dispatch(`${asAgent}
    echo x >> a; git commit -qam one; echo x >> b; echo n > n; rm gone; mkdir empty; echo t > ../two/t`)
  const { notes, applied } = await bench.changesets.apply(id, to('own', { own: true }), 'anna')
  const [one, two] = bench.roots
  const left = `${one}: b, ${one}: gone, ${one}: n, ${two}: t`
  expect(notes).toEqual([expect.stringContaining(`in none of the agent's commits: ${left};`)])
  expect(applied.map(({ path }) => path)).toEqual(['a', 'b', 'empty', 'gone', 'n', 't'])
  expect(await gitIn(bench.root, 'diff', '--name-only', 'main', 'own')).toBe('a')
})

test("the agent's own commits are refused where the user's uncommitted work is in them, and one commit is made without it", async () => {
  await using bench = await Bench.make()
  await bench.user(`${setUp}; git config core.autocrlf input; seq 9 > a; printf '1\\r\\n' > w; seq 30 > r; git add .
    git commit -qm first; echo dirty >> a; echo mine > u; sed -i s/^9$/nine/ r`)
  const { id } = await bench.dispatch(`${asAgent}
    sed -i s/^1$/one/ a; echo more >> u; git mv r moved; printf '2\\r\\n' >> w; git add -A; git commit -qm one`)
  const landing = bench.changesets.apply(id, to('own', { own: true }), 'anna')
  await expect(landing).rejects.toMatchObject({
    code: 'changeset.commits_yours',
    kind: 'refused',
    details: { paths: ['a', 'r', 'u'] },
  })
  expect(await gitIn(bench.root, 'branch', '--list', 'own')).toBe('')
  expect(await gitIn(bench.root, 'status', '--porcelain')).toBe('M a\n M r\n?? u')
  const clean = await bench.dispatch(`${asAgent}; printf '2\\r\\n' >> w; git commit -qm one w`)
  await bench.changesets.apply(clean.id, to('own', { own: true }), 'anna')
  expect(await gitIn(bench.root, 'diff', '--name-only', 'main', 'own')).toBe('w')
})

test("a commit holds the reviewed change alone, woven into the branch's own lines", async () => {
  await using bench = await Bench.make()
  await bench.user(
    `${setUp}; git config core.autocrlf input; seq 20 > a; printf '1\\r\\n2\\r\\n' > w; mkdir d; echo 1 > d/f; echo 2 > e; git add .
     git commit -qm first; git switch -qc side; sed -i s/^18$/eighteen/ a; git commit -qam side; git switch -q main
     sed -i s/^10$/mine/ a; echo dirty > r; git add r`,
  )
  const { id } = await bench.dispatch(
    `sed -i s/^2$/two/ a; printf '3\\r\\n' >> w; rm -r d; echo file > d; rm e; mkdir e; echo in > e/in`,
  )
  const { notes, commit } = await bench.changesets.apply(id, to('side'), 'anna')
  expect(notes).toBeUndefined()
  const [root, parent] = [bench.root, 'side~1']
  expect(await gitIn(root, 'diff', '-U0', parent, commit!.oid, '--', 'a')).toMatch(/@@\n-2\n\+two$/)
  expect(await gitIn(root, 'diff', '--no-renames', '--name-status', parent, 'side')).toBe(
    'M\ta\nA\td\nD\td/f\nD\te\nA\te/in\nM\tw',
  )
  expect(await gitIn(root, 'cat-file', 'blob', 'side:w')).toBe('1\n2\n3')
  const short = commit!.oid.slice(0, 12)
  expect((await bench.changesets.undo(id, 'anna')).notes).toEqual([
    expect.stringContaining(`the commit ${short} stays on side: keep it, revert it there or drop it`),
  ])
  await bench.changesets.apply(id, to('main', { hooks: true }), 'anna')
  expect(await gitIn(root, 'diff', '-U0', 'main~1', 'main', '--', 'a')).toMatch(/@@\n-2\n\+two$/)
  expect(await gitIn(root, 'status', '--porcelain')).toBe('M a\nA  r')
})

const inTheWay = {
  message: expect.stringMatching(/^git does not take the branch main\/below: 'refs\/heads\/main' exists/),
  hint: expect.stringContaining('Nothing was changed'),
}

test('what cannot be committed is refused before anything lands', async () => {
  await using bench = await Bench.make(['project', 'plain'])
  await bench.user(
    `${setUp}; seq 5 > a; git add .; git commit -qm first; git switch -qc side; sed -i s/^2$/other/ a; git commit -qam side; git switch -q main`,
  )
  const { id } = await bench.dispatch('sed -i s/^2$/two/ a')
  const before = await filesIn(bench)
  const refusals = [
    [to('side'), { kind: 'busy', details: { paths: ['a'] } }],
    [to('bad..name'), { kind: 'usage' }],
    [to('-x'), { kind: 'usage' }],
    [to('@'), { kind: 'usage' }],
    [to('refs/heads/q'), { kind: 'usage', hint: 'Nothing was changed. Say q.' }],
    [to('main/below'), { code: 'changeset.commit_failed', kind: 'input', ...inTheWay }],
    [to('new', { own: true }), { code: 'changeset.no_commits', kind: 'input' }],
    [to('side', { hooks: true }), { code: 'changeset.hooks_elsewhere', kind: 'input' }],
  ] as const
  for (const [request, error] of refusals)
    await expect(bench.changesets.apply(id, request, 'anna')).rejects.toMatchObject(error)
  expect(await filesIn(bench)).toBe(before)
  // A refusal leaves the decisions as they were: nobody has approved what did not land.
  expect(bench.store.changesets.decisions(id)).toEqual([])
  const outside = await bench.dispatch('echo x > ../plain/x')
  await expect(bench.changesets.apply(outside.id, to('new'), 'anna')).rejects.toMatchObject({
    code: 'changeset.no_repository',
    kind: 'input',
  })
  const both = await bench.dispatch('echo x > ../plain/x; echo y > y')
  const { notes, commit } = await bench.changesets.apply(both.id, to('new'), 'anna')
  expect(notes).toEqual([expect.stringContaining(`${bench.roots[1]} is in no git repository`)])
  expect(commit?.oid).toBe(await gitIn(bench.root, 'rev-parse', 'new'))
})

test('a commit asked for once all has landed is told how it landed and how to have one, a bad name as such', async () => {
  await using bench = await Bench.make()
  await bench.user(`${setUp}; echo a > a; git add .; git commit -qm first`)
  const { id } = await bench.dispatch('echo b > a')
  const asked = async () => (await bench.changesets.apply(id, to('later'), 'anna')).notes
  await bench.changesets.apply(id, all, 'anna')
  const way = `commit it with git, or \`orangery changeset undo ${id}\` and apply it with --commit`
  expect(await asked()).toEqual([`no commit was made: it has landed before, without a commit; ${way}`])
  for (const name of ['-x', '@', 'HEAD'])
    await expect(bench.changesets.apply(id, to(name), 'anna')).rejects.toMatchObject({ kind: 'usage' })
  await bench.changesets.undo(id, 'anna')
  const { commit } = await bench.changesets.apply(id, to('side'), 'anna')
  const made = `${commit?.oid.slice(0, 12)} on side`
  expect(await asked()).toEqual([
    `no commit was made: it has landed before, with the commit ${made}; bring that to later with git`,
  ])
  expect(await gitIn(bench.root, 'branch', '--list', 'later')).toBe('')
})

test('a commit asked for where the rest was rejected since is told how the other part landed', async () => {
  await using bench = await Bench.make()
  await bench.user(`${setUp}; echo a > a; echo b > b; git add .; git commit -qm first`)
  const { id } = await bench.dispatch('echo 1 > a; echo 1 > b')
  const approved = { all: false, include_ignored: false }
  await bench.changesets.decide(id, { path: 'a', verdict: 'approve' }, 'anna')
  await bench.changesets.apply(id, approved, 'anna')
  await bench.changesets.decide(id, { path: 'b', verdict: 'reject' }, 'anna')
  const asked = (branch: string) =>
    bench.changesets.apply(id, { ...approved, commit: to(branch).commit }, 'anna')
  await expect(asked('@')).rejects.toMatchObject({ kind: 'usage' })
  expect((await bench.changesets.get(id)).state).toBe('review')
  const { state, notes } = await asked('later')
  expect(state).toBe('applied')
  expect(notes).toEqual([
    expect.stringMatching(/^no commit was made: it has landed before, without a commit/),
  ])
})

test('who has no name for git learns that before anything lands, with what gives him one', async () => {
  await using bench = await Bench.make()
  await bench.user(`${setUp}; echo a > a; git add .; git commit -qm first
    git config --unset user.name; git config --unset user.email; git config user.useConfigOnly true`)
  const { id } = await bench.dispatch('echo b > a')
  vi.stubEnv('HOME', bench.folder)
  vi.stubEnv('XDG_CONFIG_HOME', bench.folder)
  try {
    await expect(bench.changesets.apply(id, to('main'), 'anna')).rejects.toMatchObject({
      code: 'changeset.commit_failed',
      message: expect.stringContaining('git does not know who you are'),
      hint: expect.stringContaining('git config --global user.name'),
    })
  } finally {
    vi.unstubAllEnvs()
  }
  expect(await readFile(join(bench.root, 'a'), 'utf8')).toBe('a\n')
})

test('a hook that refuses without a word is named, with the way to the commit', async () => {
  await using bench = await Bench.make()
  await bench.user(`${setUp}; echo a > a; git add .; git commit -qm first
    printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit`)
  const { id } = await bench.dispatch('echo b > a')
  const { notes, commit } = await bench.changesets.apply(id, to('main', { hooks: true }), 'anna')
  expect(commit).toBeUndefined()
  expect(notes).toEqual([
    'no commit was made: git commit: ended with 1 and without a word, as it does where a hook refuses',
    `the files have landed; \`orangery changeset apply ${id} --commit main --hooks\` makes the commit alone`,
  ])
  expect((await bench.changesets.apply(id, to('main'), 'anna')).commit).toBeDefined()
})

test('a commit of nothing but what belongs to a submodule is refused before it lands', async () => {
  await using bench = await Bench.make()
  await bench.user(`git init -q -b main ../library; cd ../library; git config user.name U; git config user.email u@x
    echo s > s; git add s; git commit -qm s; cd ../project; ${setUp}
    git -c protocol.file.allow=always submodule --quiet add ../library sub; git commit -qm first`)
  const { id } = await bench.dispatch('echo more >> sub/s')
  const before = await filesIn(bench)
  await expect(bench.changesets.apply(id, to('main'), 'anna')).rejects.toMatchObject({
    code: 'changeset.nothing_to_commit',
    kind: 'input',
    message: expect.stringContaining('sub/s belongs to a submodule'),
  })
  expect(await filesIn(bench)).toBe(before)
  expect((await bench.changesets.apply(id, all, 'anna')).applied).toMatchObject([{ path: 'sub/s' }])
})

test('in a repository named by SHA-256 deletions are committed, and commits that stay behind are told', async () => {
  await using bench = await Bench.make()
  await bench.user(
    `${setUp.replace('init', 'init --object-format=sha256')}; echo a > a; echo d > d; git add .; git commit -qm first`,
  )
  const { id } = await bench.dispatch(`${asAgent}; rm d; echo b > a; git commit -qam own`)
  const { dropped } = await bench.changesets.get(id)
  expect(dropped).toContainEqual(
    expect.objectContaining({ path: '.git/refs/heads/main', why: expect.stringContaining('SHA-256') }),
  )
  const { notes, commit } = await bench.changesets.apply(id, to('main'), 'anna')
  expect(notes).toBeUndefined()
  expect(await gitIn(bench.root, 'ls-tree', '--name-only', commit!.oid)).toBe('a')
  expect(await gitIn(bench.root, 'status', '--porcelain')).toBe('')
})

test('an undo tells as many files as the apply did, empty folders and renamed files among them', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 20 > old; echo same > t; echo gone > gone')
  const { id } = await bench.dispatch('mv old new; mkdir empty; ln -s new link; rm gone; echo x > there')
  await bench.user('echo x > there')
  const { applied } = await bench.changesets.apply(id, all, 'anna')
  expect(applied.map(({ path }) => path)).toEqual(['empty', 'gone', 'link', 'new', 'there'])
  expect((await bench.changesets.undo(id, 'anna')).applied).toEqual(applied)
})

test('roots in several repositories get a commit each', async () => {
  await using bench = await Bench.make(['one', 'two'])
  await bench.user(`${setUp}; git commit -qm first --allow-empty; cd ../two; ${setUp}`)
  const { id } = await bench.dispatch('echo x > x; echo y > ../two/y')
  const { commits } = await bench.changesets.apply(id, to('new'), 'anna')
  expect(commits?.map(({ root }) => root)).toEqual([...bench.roots])
  for (const [at, name] of ['x', 'y'].entries())
    expect(await gitIn(bench.roots[at]!, 'ls-tree', '--name-only', 'new')).toBe(name)
})

test('an undo names each commit that stays, be they in several repositories or several of the agent', async () => {
  await using bench = await Bench.make(['one', 'two'])
  const first = `${setUp}; git commit -qm first --allow-empty`
  await bench.user(`${first}; cd ../two; ${first}`)
  const { id } = await bench.dispatch(`${asAgent}; echo 1 > x; git add x; git commit -qm one
    echo 2 > x; git commit -qam two; cd ../two; ${asAgent}; echo y > y; git add y; git commit -qm three`)
  const shorts = async (root: string, branch: string) =>
    (await gitIn(root, 'log', '--reverse', '--abbrev=12', '--format=%h', `main..${branch}`)).split('\n')
  for (const own of [false, true]) {
    const branch = own ? 'own' : 'new'
    await bench.changesets.apply(id, to(branch, { own }), 'anna')
    const { notes } = await bench.changesets.undo(id, 'anna')
    const told = bench.roots.map(async (root) => {
      const names = await shorts(root, branch)
      const some = names.length === 1 ? `commit ${names[0]} stays` : `commits ${names.join(', ')} stay`
      return expect.stringContaining(`the ${some} on ${branch} in ${root}:`)
    })
    expect(notes).toEqual(await Promise.all(told))
  }
  expect(await shorts(bench.root, 'own')).toHaveLength(2)
})

test('a conflict of a renamed file is settled under the name it is told by, and others beside it', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 20 > old; seq 5 > b')
  const { id } = await bench.dispatch('mv old new; sed -i s/^9$/nine/ new; sed -i s/^2$/two/ b')
  await bench.user('sed -i s/^9$/neun/ old; sed -i s/^2$/zwei/ b')
  const { conflicts } = await bench.changesets.conflicts(id)
  expect(conflicts.map(({ path }) => path)).toEqual(['b', 'new'])
  await bench.changesets.resolve(id, { path: 'b', choice: 'theirs' }, 'anna')
  const left = await bench.changesets.resolve(id, { path: 'old', choice: 'theirs' }, 'anna')
  expect(left.conflicts).toEqual([])
  await bench.changesets.apply(id, all, 'anna')
  expect(await bench.snapshot()).toMatch(/^b f .*\nnew f .*\n[^o]/)
})

test("an undo gives the user's files all their mode bits back, and no apply gives an agent's any", async () => {
  await using bench = await Bench.make()
  await bench.user('echo 1 > tool; chmod 4755 tool; mkdir d; echo 1 > d/f; chmod 2775 d')
  const { id } = await bench.dispatch(
    'echo 2 > tool; chmod 4755 tool; rm -r d; mkdir -m 2775 n; echo 1 > n/f',
  )
  await bench.changesets.apply(id, all, 'anna')
  const mode = async (name: string) => (await stat(join(bench.root, name))).mode & 0o7777
  expect([await mode('tool'), await mode('n')]).toEqual([0o755, 0o775])
  await bench.changesets.undo(id, 'anna')
  expect([await mode('tool'), await mode('d')]).toEqual([0o4755, 0o2775])
})

test('a path that is not UTF-8 comes with its bytes in what an apply and an undo tell', async () => {
  await using bench = await Bench.make()
  const { id } = await bench.dispatch(`printf x > "$(printf 'n\\377')"; printf x > "$(printf 's\\377')"`)
  const skipped = (await bench.changesets.get(id)).files[1]!
  await bench.changesets.decide(id, { path: skipped.path, verdict: 'reject' }, 'anna')
  const named = { path: 'n\ufffd', path_b64: Buffer.from('n\xff', 'latin1').toString('base64') }
  const result = await bench.changesets.apply(id, all, 'anna')
  expect(result.applied).toEqual([{ root: bench.root, ...named }])
  expect(result.skipped).toMatchObject([{ path_b64: Buffer.from('s\xff', 'latin1').toString('base64') }])
  expect((await bench.changesets.undo(id, 'anna')).applied).toEqual([{ root: bench.root, ...named }])
})

test('a file too large for a patch is left out of it and named, and git takes the rest', async () => {
  await using bench = await Bench.make()
  await bench.user(`${setUp}; printf '\\0one' > small; git add .; git commit -qm first`)
  const { id } = await bench.dispatch(`printf '\\0two' > small; truncate -s 17M large`)
  const { text, left_out } = await bench.changesets.diff(id, {})
  expect(left_out).toEqual(['large'])
  await writeFile(join(bench.folder, 'patch'), text)
  expect((await run('git', ['apply', '../patch'], { cwd: bench.root })).stderr.toString()).toBe('')
  expect((await bench.changesets.export(id, { format: 'patch' })).left_out).toEqual(['large'])
  expect((await bench.changesets.diff(id, { path: 'large' })).text).toContain('Binary files')
  expect((await bench.changesets.diff(id, { path: 'large', stat: true })).text).toContain('17825792 bytes')
  const [added] = (await bench.changesets.get(id)).files
  expect(added).toMatchObject({ path: 'large', change: 'added', binary: true, size_after: 17825792 })
  // Git is given something small to compare: it would read all of a file that is new.
  const objects = bench.layout.objects(bench.store.changesets.find(id)!.repoId)
  const { result_tree } = (await bench.manifest(id)).roots[0]!
  const listed = await run('git', ['--git-dir', objects, 'ls-tree', '-l', result_tree, 'large'])
  expect(listed.stdout.toString()).toMatch(/ 77\tlarge$/m)
})

test('commits that change no file in the end land by themselves, and can be taken back', async () => {
  await using bench = await Bench.make()
  await bench.user(`${setUp}; echo a > a; git add .; git commit -qm first`)
  const { id } = await bench.dispatch(`${asAgent}
    echo b >> a; git commit -qam one; git revert --no-edit HEAD; git commit -q --allow-empty -m empty`)
  const before = await filesIn(bench)
  const { state, applied } = await bench.changesets.apply(id, { all: false, include_ignored: false }, 'anna')
  expect({ state, applied }).toEqual({ state: 'applied', applied: [] })
  expect(await gitIn(bench.root, 'log', '--format=%s', `refs/orangery/${id}/heads/main`)).toBe(
    'empty\nRevert "one"\none\nfirst',
  )
  expect((await bench.changesets.undo(id, 'anna')).state).toBe('review')
  expect(await filesIn(bench)).toBe(before)
})

test('an ignore file that would show a marker never lands in an integration tree', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir .agency; touch .agency/INTEGRATION_MARKER')
  const { id } = await bench.dispatch(
    "echo '!.agency/**' > .gitignore; echo n > n; rm .agency/*; echo x > .agency/SANDBOX_MARKER",
  )
  const { applied, skipped } = await bench.changesets.apply(id, all, 'anna')
  expect(applied.map(({ path }) => path)).toEqual(['n'])
  expect(skipped).toMatchObject([{ path: '.gitignore', why: expect.stringContaining('INTEGRATION_MARKER') }])
})

test('commits in a repository below the root land in that repository, and alone they make a changeset', async () => {
  await using bench = await Bench.make()
  await bench.user(
    `mkdir -p one deep/two; for d in one deep/two; do (cd $d; ${setUp}; echo 1 > a; git add .; git commit -qm first); done`,
  )
  const { id } = await bench.dispatch(`cd deep/two; ${asAgent}
    git config core.hooksPath /tmp; echo 2 > a; git commit -qam second; git reset -q --soft HEAD; git checkout -q -b side
    git checkout -q main; cd ../../one; ${asAgent}; git commit -q --allow-empty -m empty`)
  const { commits } = await bench.changesets.get(id)
  const found = commits?.map(({ folder, ref }) => `${folder} ${ref}`)
  expect(found).toEqual(expect.arrayContaining(['deep/two refs/heads/main', 'one refs/heads/main']))
  const result = await bench.changesets.apply(id, all, 'anna')
  expect(result.notes ?? []).toEqual([])
  for (const [folder, subject] of [
    ['deep/two', 'second'],
    ['one', 'empty'],
  ] as const) {
    const cwd = join(bench.root, folder)
    expect(await gitIn(cwd, 'log', '-1', '--format=%s', `refs/orangery/${id}/heads/main`)).toBe(subject)
    expect(await gitIn(cwd, 'log', '-1', '--format=%s', 'main')).toBe('first')
    expect(await gitIn(cwd, 'config', 'core.hooksPath')).toBe('')
  }

  const alone = await bench.dispatch(`cd one; ${asAgent}; git commit -q --allow-empty -m alone`)
  expect((await bench.changesets.apply(alone.id, all, 'anna')).state).toBe('applied')
  const landed = await gitIn(
    join(bench.root, 'one'),
    'log',
    '-1',
    '--format=%s',
    `refs/orangery/${alone.id}/heads/main`,
  )
  expect(landed).toBe('alone')
})

test('commits that the agent left on no branch, in a stash or on a detached HEAD are kept and told', async () => {
  await using bench = await Bench.make()
  await bench.user(
    `${setUp}; echo a > a; git add .; git commit -qm first; git commit -qm second --allow-empty; git tag old HEAD~1`,
  )
  const commit = (name: string) => `echo ${name} > ${name}; git add .; git commit -qm ${name}`
  const { id } = await bench.dispatch(`${asAgent}
    git switch -q --detach; ${commit('lost')}; git switch -q main; git switch -qc gone; ${commit('deleted')}
    git switch -q main; git branch -qD gone; echo b > a; git stash -q; git checkout -q old; git switch -q main
    echo '[[[' >> .git/config`)
  const { commits = [], files } = await bench.changesets.get(id)
  expect(files).toEqual([])
  const gitDir = bench.layout.objects((await bench.workspace()).repoId)
  const env = { GIT_ALTERNATE_OBJECT_DIRECTORIES: join(bench.root, '.git/objects') }
  const subject = async (oid: string) =>
    (await run('git', ['--git-dir', gitDir, 'log', '-1', '--format=%s', oid], { env })).stdout
      .toString()
      .trim()
  const told = await Promise.all(commits.map(async ({ ref, oid }) => [ref.split('/')[0], await subject(oid)]))
  expect(told.toSorted()).toEqual([
    ['left', 'deleted'],
    ['left', 'lost'],
    ['refs', expect.stringContaining('WIP on main')],
  ])
  const { id: looked } = await bench.dispatch('git checkout -q old; git switch -q main')
  expect(bench.store.changesets.find(looked)).toBeNull()
  const damaged = await bench.dispatch(
    `${asAgent}; ${commit('x')}; rm x .git/objects/$(git rev-parse HEAD^{tree} | sed 's|^..|&/|')`,
  )
  expect((await bench.changesets.get(damaged.id)).dropped).toContainEqual({
    root: bench.root,
    path: '.git/refs/heads/main',
    why: 'its commits are incomplete and were not imported',
  })
})
