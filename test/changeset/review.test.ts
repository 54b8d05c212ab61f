import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run } from '../../src/engine/base/process.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'
import type { DispatchId } from '../../src/shared/ids.ts'

const all = { all: true, include_ignored: false }
const approved = { all: false, include_ignored: false }

test('a hunk approved before the next turn stays approved when its text did not change, and only the changed one reopens', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 60 > f')
  const { id, workspace } = await bench.dispatch(`sed -i 's/^5$/five/; s/^30$/thirty/; s/^55$/fiftyfive/' f`)
  const hunks = (await bench.changesets.get(id)).files[0]!.hunks
  expect(hunks).toHaveLength(3)
  await bench.changesets.decide(id, { path: 'f', hunk: hunks[0]!.id, verdict: 'approve' }, 'anna')
  await bench.changesets.decide(
    id,
    { path: 'f', hunk: hunks[1]!.id, verdict: 'rework', comment: 'spell it' },
    'anna',
  )
  expect(await bench.changesets.reworkPrompt(id)).toContain(`f (hunk ${hunks[1]!.id}) [rework]: spell it`)
  await bench.changesets.reject(id, 'one more round', 'anna')
  const { id: next } = await bench.workspace()
  await bench.changesets.reopen(id, next, 'anna')
  // Two lines more at the top move every later line.
  await bench.agent(workspace, `sed -i 's/^thirty$/Thirty/' f; sed -i '5i extra' f`)
  await bench.agent(workspace, `sed -i '/^extra$/d' f; sed -i 's/^60$/60\\n61\\n62/' f`)
  await bench.changesets.capture(workspace, { final: true })
  const after = await bench.changesets.get(id)
  expect(after.state).toBe('review')
  expect(after.turn).toBe(2)
  const file = after.files[0]!
  expect(file.hunks.map((hunk) => hunk.decision)).toEqual(['approve', null, null])
  expect(file.reopened).toBe(true)
  expect(file.comments).toMatchObject([{ text: 'spell it', outdated: true }])
  const since = await bench.changesets.diff(id, { scope: 'review' }, 'anna')
  expect(since.text).toContain('-thirty')
  expect(since.text).toContain('+Thirty')
  expect(since.text).not.toContain('+five')
  expect((await bench.changesets.diff(id, { scope: 'turn' }, 'bert')).text).toBe(since.text)
  expect(after.transitions.map((each) => each.to)).toEqual([
    'active',
    'review',
    'rejected',
    'active',
    'review',
  ])
})

test('what was decided on a text holds after its file was renamed, and the new name is decided anew', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 60 > f')
  const { id, workspace } = await bench.dispatch(`sed -i 's/^5$/five/; s/^30$/thirty/' f`)
  const [five] = (await bench.changesets.get(id)).files[0]!.hunks
  await bench.changesets.decide(
    id,
    { path: 'f', hunk: five!.id, verdict: 'approve', comment: 'good' },
    'anna',
  )
  await bench.agent(workspace, 'mv f g')
  await bench.changesets.capture(workspace, { final: true })
  const { files } = await bench.changesets.get(id)
  expect(files).toMatchObject([
    { path: 'g', from_path: 'f', change: 'renamed', decision: null, comments: [{ text: 'good' }] },
  ])
  expect(files[0]!.hunks.map((hunk) => hunk.decision)).toEqual(['approve', null])
  // The approved part lands under the old name: nobody has approved the new one.
  const part = await bench.changesets.apply(id, approved, 'anna')
  expect(part.applied).toEqual([{ root: bench.root, path: 'f' }])
  expect(part.skipped).toMatchObject([{ path: 'g', why: expect.stringContaining('keeps the name f') }])
  expect(await bench.snapshot()).toMatch(/^f f 644/)
  expect(await readFile(join(bench.root, 'f'), 'utf8')).toMatch(/^4\nfive\n6\n(.|\n)*^30$/m)
  await bench.changesets.decide(id, { path: 'g', verdict: 'approve' }, 'anna')
  await bench.changesets.apply(id, approved, 'anna')
  expect(await bench.snapshot()).toMatch(/^g f 644/)
})

test('a hunk of a renamed file lands without the new name, whose folder waits with it, and undo takes just that back', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir old; seq 60 > old/f')
  const before = await bench.snapshot()
  const { id } = await bench.dispatch(
    `mkdir new; mv old/f new/f; rmdir old; sed -i 's/^5$/five/; s/^55$/fiftyfive/' new/f`,
  )
  const [file] = (await bench.changesets.get(id)).files
  expect(file).toMatchObject({ path: 'new/f', from_path: 'old/f', hunks: [{}, {}] })
  await bench.changesets.decide(id, { path: 'new/f', hunk: file!.hunks[0]!.id, verdict: 'approve' }, 'anna')
  const { applied, state } = await bench.changesets.apply(id, approved, 'anna')
  expect([applied, state]).toEqual([[{ root: bench.root, path: 'old/f' }], 'review'])
  expect(await bench.snapshot()).toMatch(/^old d 755 \nold\/f f 644/)
  const rest = (await bench.changesets.get(id)).files
  expect(rest).toMatchObject([{ path: 'new/f', from_path: 'old/f', hunks: [{ id: file!.hunks[1]!.id }] }])
  expect((await bench.changesets.undo(id, 'anna')).applied).toEqual(applied)
  expect(await bench.snapshot()).toBe(before)
  await bench.changesets.apply(id, all, 'anna')
  expect(await bench.snapshot()).toMatch(/^new d 755 \nnew\/f f 644/)
})

test('an abandoned changeset can be brought back for 30 days, and is gone after them', async () => {
  await using bench = await Bench.make()
  const day = 24 * 60 * 60 * 1000
  const [kept, gone] = [await bench.dispatch('echo a > a'), await bench.dispatch('echo b > b')]
  await bench.changesets.abandon(kept.id, 'anna')
  await bench.changesets.abandon(gone.id, 'anna')
  expect(await bench.changesets.expire(Date.now() + 29 * day)).toEqual([])
  await bench.changesets.restore(kept.id, 'anna')
  expect(await bench.changesets.expire(Date.now() + 31 * day)).toEqual([gone.id])
  await expect(bench.changesets.get(gone.id)).rejects.toMatchObject({ kind: 'not_found' })
  expect(await bench.changesets.apply(kept.id, all, 'anna')).toMatchObject({ state: 'applied' })
})

test('approved hunks land, the rest stays in review, and undo takes exactly them back', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 60 > f; echo b > b')
  const before = await bench.snapshot()
  const { id } = await bench.dispatch(`sed -i 's/^5$/five/; s/^55$/fiftyfive/' f; echo B > b`)
  const file = (await bench.changesets.get(id)).files.find((each) => each.path === 'f')!
  await bench.changesets.decide(id, { path: 'f', hunk: file.hunks[1]!.id, verdict: 'approve' }, 'anna')
  const result = await bench.changesets.apply(id, approved, 'anna')
  expect(result).toMatchObject({ state: 'review', applied: [{ path: 'f' }] })
  const text = await readFile(join(bench.root, 'f'), 'utf8')
  expect(text).toContain('fiftyfive')
  expect(text).not.toContain('five\n6\n')
  const rest = await bench.changesets.get(id)
  expect(rest.files.map((each) => [each.path, each.hunks.length])).toEqual([
    ['b', 1],
    ['f', 1],
  ])
  expect(rest.files[1]!.hunks[0]!.id).toBe(file.hunks[0]!.id)
  expect(rest.files[1]!.reopened).toBe(false)
  await bench.changesets.undo(id, 'anna')
  expect(await bench.snapshot()).toBe(before)
  expect((await bench.changesets.get(id)).files.find((each) => each.path === 'f')!.hunks).toHaveLength(2)
})

test('what was rejected does not land with "approve all", and a changeset with nothing open is applied', async () => {
  await using bench = await Bench.make()
  const { id } = await bench.dispatch('echo a > a; echo b > b')
  await bench.changesets.decide(id, { path: 'b', verdict: 'reject' }, 'anna')
  const result = await bench.changesets.apply(id, all, 'anna')
  expect(result).toMatchObject({
    state: 'applied',
    applied: [{ path: 'a' }],
    skipped: [{ path: 'b', why: 'rejected' }],
  })
})

test('protected files need a decision of their own, ignored ones are asked for', async () => {
  await using bench = await Bench.make()
  await bench.user(
    'printf "node_modules/\\n*.log\\n" > .gitignore; echo \'{"scripts":{"test":"x"}}\' > package.json; mkdir sub; echo \'{"name":"s"}\' > sub/package.json',
  )
  const { id } = await bench.dispatch(
    `echo a > a; mkdir -p node_modules/m .vscode .github/workflows; echo m > node_modules/m/i.js; echo l > x.log; echo '!x.log' >> .gitignore
     echo t > .vscode/tasks.json; echo w > .github/workflows/ci.yml; echo e > .envrc; echo c > sub/CLAUDE.md
     echo '{"scripts":{"test":"evil"}}' > package.json; echo '{"name":"t"}' > sub/package.json`,
  )
  const { files } = await bench.changesets.get(id)
  const which = (test: (file: (typeof files)[number]) => boolean) =>
    files.filter(test).map((file) => file.path)
  expect(which((file) => file.protected)).toEqual([
    '.envrc',
    '.github/workflows/ci.yml',
    '.vscode/tasks.json',
    'package.json',
    'sub/CLAUDE.md',
  ])
  expect(which((file) => file.ignored)).toEqual(['node_modules/m/i.js', 'x.log'])
  const first = await bench.changesets.apply(id, all, 'anna')
  expect(first.state).toBe('review')
  expect(first.applied.map((file) => file.path)).toEqual(['.gitignore', 'a', 'sub/package.json'])
  expect(first.skipped).toHaveLength(7)
  await bench.changesets.decide(id, { path: '.envrc', verdict: 'approve' }, 'anna')
  await expect(
    bench.changesets.decide(id, { path: '.vscode', verdict: 'approve' }, 'anna'),
  ).rejects.toMatchObject({ kind: 'refused' })
  const second = await bench.changesets.apply(id, { all: true, include_ignored: true }, 'anna')
  expect(second.applied.map((file) => file.path)).toEqual(['.envrc', 'node_modules/m/i.js', 'x.log'])
})

test('a changeset that moved since it was reviewed is refused', async () => {
  await using bench = await Bench.make()
  const { id, workspace } = await bench.dispatch('echo a > a')
  const { revision } = await bench.changesets.get(id)
  await bench.agent(workspace, 'echo evil > a')
  await bench.changesets.capture(workspace, { final: true })
  await expect(bench.changesets.apply(id, { ...all, revision }, 'anna')).rejects.toMatchObject({
    code: 'changeset.moved',
    kind: 'busy',
  })
})

test('a host file touched after the start and before the first look is a conflict, not a base', async () => {
  await using bench = await Bench.make()
  await bench.user('echo one > f')
  const workspace = await bench.workspace()
  await bench.agent(workspace, 'echo agent >> f')
  await new Promise((resolve) => setTimeout(resolve, 120))
  await bench.user('echo user > f')
  await bench.changesets.capture(workspace, { final: true })
  await expect(bench.changesets.apply(workspace.id, all, 'anna')).rejects.toMatchObject({
    code: 'changeset.conflict',
  })
  expect(await readFile(join(bench.root, 'f'), 'utf8')).toBe('user\n')
})

test('undo refuses when a file has moved on since the apply', async () => {
  await using bench = await Bench.make()
  const { id } = await bench.dispatch('echo a > a; echo b > b')
  await bench.changesets.apply(id, all, 'anna')
  await bench.user('echo mine >> a')
  const before = await bench.snapshot()
  await expect(bench.changesets.undo(id, 'anna')).rejects.toMatchObject({
    code: 'changeset.conflict',
    kind: 'busy',
  })
  expect(await bench.snapshot()).toBe(before)
})

test('two open changesets that touch the same file warn each other', async () => {
  await using bench = await Bench.make()
  await bench.user('echo a > a')
  const one = await bench.dispatch('echo 1 > a; echo x > x')
  const two = await bench.dispatch('echo 2 > a; echo y > y')
  expect((await bench.changesets.get(one.id)).overlaps).toEqual([{ id: two.id, paths: ['a'] }])
  expect((await bench.changesets.get(two.id)).overlaps).toEqual([{ id: one.id, paths: ['a'] }])
})

test('changesets warn each other of a file also if they have it under other roots and projects, and many lie between', async () => {
  await using bench = await Bench.make(['one', 'two', 'shared', 'shared/deep'])
  await bench.user('echo s > ../shared/f; echo d > ../shared/deep/g; echo z > z')
  const [one, two, shared, deep] = bench.roots as [string, string, string, string]
  const by = async (roots: readonly string[], script: string) => {
    const made = await bench.workspace(roots)
    return (await bench.dispatch(script, Promise.resolve(made))).id
  }
  const first = await by([one, shared], `echo 1 >> ${shared}/f; echo 1 >> ${deep}/g; echo 1 > z`)
  for (let count = 0; count < 33; count += 1) await by([one], `echo ${count} > other`)
  const second = await by([two, shared], `echo 2 >> ${shared}/f; echo 2 > z`)
  const third = await by([deep], 'echo 3 >> g')
  const overlaps = async (id: DispatchId) => (await bench.changesets.get(id)).overlaps ?? []
  expect(await overlaps(first)).toEqual(
    expect.arrayContaining([
      { id: second, paths: ['f'] },
      { id: third, paths: ['deep/g'] },
    ]),
  )
  expect(await overlaps(first)).toHaveLength(2)
  expect(await overlaps(second)).toEqual([{ id: first, paths: ['f'] }])
  expect(await overlaps(third)).toEqual([{ id: first, paths: ['g'] }])
})

test('changes under .git are dropped, commits are imported without running anything, and can become a branch', async () => {
  await using bench = await Bench.make()
  const marker = join(bench.folder, 'ran')
  await bench.user(
    'git init -q -b main; git config user.name U; git config user.email u@x; echo a > a; git add a; git commit -qm first',
  )
  const gitBefore = (
    await run('sh', ['-c', 'find .git -type f | sort | xargs sha256sum'], { cwd: bench.root })
  ).stdout.toString()
  const { id } = await bench.dispatch(
    `git config user.name A; git config user.email a@x; git config core.fsmonitor 'touch ${marker}'; git config core.hooksPath .git/hooks
     printf '#!/bin/sh\\ntouch ${marker}\\n' > .git/hooks/reference-transaction; chmod +x .git/hooks/reference-transaction
     echo b >> a; git -c core.fsmonitor= -c core.hooksPath=/dev/null commit -qam second; git -c core.hooksPath=/dev/null -c core.fsmonitor= branch side; echo '[alias] x = !touch ${marker}' >> .git/config
     mkdir nested; cd nested; git init -q; echo n > n; cd ..; rm -f ${marker}`,
  )
  const gitAfter = (
    await run('sh', ['-c', 'find .git -type f | sort | xargs sha256sum'], { cwd: bench.root })
  ).stdout.toString()
  expect(gitAfter).toBe(gitBefore)
  const changeset = await bench.changesets.get(id)
  expect(changeset.files.map((file) => file.path)).toEqual(['a', 'nested/n'])
  const dropped = changeset.dropped.map((each) => each.path)
  expect(dropped).toEqual(
    expect.arrayContaining([
      '.git/config',
      '.git/hooks/reference-transaction',
      '.git/objects',
      'nested/.git',
    ]),
  )
  expect(changeset.commits!.map((each) => each.ref).toSorted()).toEqual([
    'refs/heads/main',
    'refs/heads/side',
  ])
  const result = await bench.changesets.apply(
    id,
    { ...all, commit: { branch: 'from-agent', own: true, hooks: false } },
    'anna',
  )
  expect(result.notes).toEqual([expect.stringContaining("in none of the agent's commits: nested/n;")])
  const log = await run('git', ['log', '--format=%s %an', 'from-agent'], { cwd: bench.root })
  expect(log.stdout.toString()).toBe('second A\nfirst U\n')
  const ref = await run('git', ['rev-parse', `refs/orangery/${id}/heads/side`, 'from-agent'], {
    cwd: bench.root,
  })
  expect(new Set(ref.stdout.toString().trim().split('\n')).size).toBe(1)
  await expect(readFile(marker)).rejects.toMatchObject({ code: 'ENOENT' })
  expect((await run('git', ['fsck', '--strict'], { cwd: bench.root })).code).toBe(0)
})

test('what lands can become one commit of the user, on a branch he names, without his hooks', async () => {
  await using bench = await Bench.make()
  await bench.user(
    'git init -q -b main; git config user.name U; git config user.email u@x; echo a > a; echo d > d; git add .; git commit -qm first; printf "#!/bin/sh\\nexit 1\\n" > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo dirty > dirty; git add dirty',
  )
  const { id } = await bench.dispatch('echo b >> a; rm d; echo n > n')
  const commit = { branch: 'main', message: 'From the agent', own: false, hooks: false }
  const result = await bench.changesets.apply(id, { ...all, commit }, 'anna')
  expect(result.commit).toMatchObject({ branch: 'main' })
  const show = await run('git', ['show', '--name-status', '--format=%s|%an', 'main'], { cwd: bench.root })
  expect(show.stdout.toString()).toBe('From the agent|U\n\nM\ta\nD\td\nA\tn\n')
  const status = await run('git', ['status', '--porcelain'], { cwd: bench.root })
  expect(status.stdout.toString()).toBe('A  dirty\n')
})

test('a changeset is exported as a mail for git am, a tarball and a document', async () => {
  await using bench = await Bench.make()
  await bench.user(
    'git init -q -b main; git config user.name U; git config user.email u@x; echo a > a; echo "*.o" > .gitignore; git add .; git commit -qm first',
  )
  const { id } = await bench.dispatch(
    `echo b >> a; mkdir built; echo o > built/o.o; mkdir -p long/${'x'.repeat(120)}; ln -s ../a long/l; echo n > long/${'x'.repeat(120)}/n`,
  )
  const patch = await bench.exported(id, 'patch')
  const twin = join(bench.folder, 'twin')
  await run('git', ['clone', '-q', bench.root, twin])
  const am = await run('git', ['-c', 'user.name=x', '-c', 'user.email=x@x', 'am', '-q'], {
    cwd: twin,
    input: patch,
  })
  expect(am.stderr.toString()).toBe('')
  const namesIn = async (includeIgnored: boolean) =>
    (await run('tar', ['-tf', '-'], { input: await bench.exported(id, 'tar', includeIgnored) })).stdout
      .toString()
      .trim()
      .split('\n')
  const results = ['a', 'long/', 'long/l', `long/${'x'.repeat(120)}/`, `long/${'x'.repeat(120)}/n`]
  expect(await namesIn(false)).toEqual(results)
  // Ignored files, and folders that hold nothing else, only when asked for.
  expect(await namesIn(true)).toEqual(['a', 'built/', 'built/o.o', ...results.slice(1)])
  const text = async (format: 'patch' | 'json', includeIgnored: boolean) =>
    (await bench.exported(id, format, includeIgnored)).toString()
  expect(await text('patch', false)).toContain(': 3 files, +3 -0')
  expect(await text('patch', true)).toContain('b/built/o.o')
  const document = JSON.parse(await text('json', false)) as { diff: string }
  expect(document.diff).not.toContain('built/')
  expect(document.diff).toContain('+b')
  await bench.changesets.apply(id, { all: true, include_ignored: true }, 'anna')
  // What has landed is exported as it was reviewed, not as the nothing that is left.
  expect(await namesIn(false)).toEqual(results)
  expect(await readFile(join(twin, 'a'), 'utf8')).toBe(await readFile(join(bench.root, 'a'), 'utf8'))
})

test('an abandoned changeset can be restored, and a state that does not fit is refused', async () => {
  await using bench = await Bench.make()
  const { id } = await bench.dispatch('echo a > a')
  await bench.changesets.abandon(id, 'anna')
  await expect(bench.changesets.apply(id, all, 'anna')).rejects.toMatchObject({
    code: 'changeset.wrong_state',
  })
  await bench.changesets.restore(id, 'anna')
  expect((await bench.changesets.escalate(id, 'please look', 'anna')).escalated).toBe('please look')
  expect((await bench.changesets.apply(id, all, 'anna')).state).toBe('applied')
})
