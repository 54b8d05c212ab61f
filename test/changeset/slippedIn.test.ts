import { access, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run } from '../../src/engine/base/process.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'

/** Things an agent tried to get past "approve all". Each has a plain file beside it that must land. */
const all = { all: true, include_ignored: true }
const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

test('a package.json that is a link to a file with scripts does not land with "approve all"', async () => {
  await using bench = await Bench.make()
  const { id } = await bench.dispatch(
    `mkdir l; echo '{"scripts":{"postinstall":"id"}}' > l/x.json; ln -s x.json l/package.json; echo '{}' > l/y.json`,
  )
  await bench.changesets.apply(id, all, 'test')
  expect(await exists(join(bench.root, 'l/y.json'))).toBe(true)
  expect(await exists(join(bench.root, 'l/x.json'))).toBe(false)
  expect(await exists(join(bench.root, 'l/package.json'))).toBe(false)
})

test('a package.json too large to look into does not land with "approve all"', async () => {
  await using bench = await Bench.make()
  const { id } = await bench.dispatch(
    `echo '{}' > plain.json; mkdir small; echo '{"name":"x"}' > small/package.json
     { printf '{"scripts":{"postinstall":"id"},"x":"'; head -c 4200000 /dev/zero | tr '\\0' x; echo '"}'; } > package.json`,
  )
  await bench.changesets.apply(id, all, 'test')
  expect(await exists(join(bench.root, 'plain.json'))).toBe(true)
  expect(await exists(join(bench.root, 'small/package.json'))).toBe(true)
  expect(await exists(join(bench.root, 'package.json'))).toBe(false)
})

test('a bare repository under another name does not land, so git never runs its configuration', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir -p docs config; echo x > docs/x; echo y > config/y')
  const { id } = await bench.dispatch(
    `cd docs; mkdir -p objects refs/heads hooks; echo 'ref: refs/heads/main' > HEAD
     printf '[core]\\n\\tbare = false\\n\\tworktree = .\\n\\tfsmonitor = touch ran; false\\n' > config; echo plain > ../plain`,
  )
  const { files } = await bench.changesets.get(id)
  const held = files.filter((file) => file.path.startsWith('docs/'))
  expect(held.map((file) => file.path)).toContain('docs/config')
  await bench.changesets.decide(id, { path: 'docs/config', verdict: 'approve' }, 'test')
  const { skipped } = await bench.changesets.apply(id, all, 'test')
  expect(skipped).toContainEqual({
    path: 'docs/config',
    why: 'a git repository inside the project: nothing in it lands',
  })
  expect(await exists(join(bench.root, 'plain'))).toBe(true)
  await run('git', ['status'], { cwd: join(bench.root, 'docs') })
  expect(await exists(join(bench.root, 'docs/ran'))).toBe(false)
  expect(await bench.snapshot()).not.toMatch(/^docs\/(config|HEAD|refs|objects|hooks)/m)
})

test('the configuration of a bare repository that was there before does not land', async () => {
  await using bench = await Bench.make()
  await bench.user('git init -q --bare store; echo x > x')
  const before = await readFile(join(bench.root, 'store/config'), 'utf8')
  const { id } = await bench.dispatch(
    `rm store/HEAD; echo '[core] fsmonitor = id' >> store/config; echo y > x`,
  )
  await bench.changesets.apply(id, all, 'test')
  expect(await readFile(join(bench.root, 'x'), 'utf8')).toBe('y\n')
  expect(await readFile(join(bench.root, 'store/config'), 'utf8')).toBe(before)
  expect(await exists(join(bench.root, 'store/HEAD'))).toBe(true)
})

test.each([
  ['g/.git', 'mkdir -p hooks; echo id > hooks/pre-commit; echo x >> config'],
  ['g/.git/hooks', 'echo id > pre-commit'],
])('nothing lands in a root at %s', async (root, script) => {
  await using bench = await Bench.make([root])
  const before = await bench.snapshot()
  const { id } = await bench.dispatch(script)
  await bench.changesets.apply(id, all, 'test').catch(() => {})
  expect(await bench.snapshot()).toBe(before)
})

test('nothing lands in a root inside a bare repository', async () => {
  await using bench = await Bench.make(['store/hooks'])
  await run('git', ['init', '-q', '--bare', join(bench.folder, 'store')])
  const before = await bench.snapshot()
  const { id } = await bench.dispatch('echo id > post-receive')
  await bench.changesets.apply(id, all, 'test').catch(() => {})
  expect(await bench.snapshot()).toBe(before)
})

test('a workflow does not land with "approve all" because the root is .github itself', async () => {
  await using bench = await Bench.make(['g/.github'])
  const { id } = await bench.dispatch('mkdir workflows; echo x > workflows/ci.yml; echo y > README')
  await bench.changesets.apply(id, all, 'test')
  expect(await exists(join(bench.root, 'README'))).toBe(true)
  expect(await exists(join(bench.root, 'workflows/ci.yml'))).toBe(false)
})

test('a mode set after the text was approved does not land with it', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 9 > f; chmod 644 f')
  const { id, workspace } = await bench.dispatch('sed -i s/^3$/three/ f; echo x > new; chmod 644 new')
  for (const path of ['f', 'new']) await bench.changesets.decide(id, { path, verdict: 'approve' }, 'test')
  await bench.agent(workspace, 'chmod 777 f new')
  await bench.changesets.capture(workspace, { final: true })
  const { files } = await bench.changesets.get(id)
  expect(
    files.map(({ path, decision, reopened, mode_after: mode }) => [path, decision, reopened, mode]),
  ).toEqual([
    ['f', null, true, '100777'],
    ['new', null, true, '100777'],
  ])
  await bench.changesets.apply(id, { all: false, include_ignored: false }, 'test')
  expect(await readFile(join(bench.root, 'f'), 'utf8')).toContain('three')
  expect((await stat(join(bench.root, 'f'))).mode & 0o777).toBe(0o644)
  expect(await exists(join(bench.root, 'new'))).toBe(false)
  expect((await bench.changesets.get(id)).state).toBe('review')
  for (const path of ['f', 'new']) await bench.changesets.decide(id, { path, verdict: 'approve' }, 'test')
  await bench.changesets.apply(id, { all: false, include_ignored: false }, 'test')
  expect((await stat(join(bench.root, 'f'))).mode & 0o777).toBe(0o777)
  expect((await stat(join(bench.root, 'new'))).mode & 0o777).toBe(0o777)
})

test('a kind given after the text was approved does not land with it', async () => {
  await using bench = await Bench.make()
  await bench.user('echo target > target')
  const { id, workspace } = await bench.dispatch('printf target > link; echo x > plain')
  for (const path of ['link', 'plain'])
    await bench.changesets.decide(id, { path, verdict: 'approve' }, 'test')
  await bench.agent(workspace, 'rm link; ln -s target link')
  await bench.changesets.capture(workspace, { final: true })
  await bench.changesets.apply(id, { all: false, include_ignored: false }, 'test')
  expect(await exists(join(bench.root, 'plain'))).toBe(true)
  expect(await exists(join(bench.root, 'link'))).toBe(false)
})

test('a protected file does not get a mode by "approve all" after its text was approved', async () => {
  await using bench = await Bench.make()
  await bench.user('echo one > .envrc; chmod 644 .envrc')
  const { id, workspace } = await bench.dispatch('echo two >> .envrc; echo x > plain')
  await bench.changesets.decide(id, { path: '.envrc', verdict: 'approve' }, 'test')
  await bench.agent(workspace, 'chmod 777 .envrc')
  await bench.changesets.capture(workspace, { final: true })
  for (let time = 0; time < 2; time += 1) await bench.changesets.apply(id, all, 'test').catch(() => {})
  expect(await readFile(join(bench.root, '.envrc'), 'utf8')).toBe('one\ntwo\n')
  expect((await stat(join(bench.root, '.envrc'))).mode & 0o777).toBe(0o644)
})
