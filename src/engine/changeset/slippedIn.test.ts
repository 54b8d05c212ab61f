import { access, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run } from '../base/process.ts'
import { Bench } from './testing.ts'

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
    `mkdir l; echo '{"scripts":{"postinstall":"id"}}' > l/x.json; ln -s x.json l/package.json`,
  )
  await bench.changesets.apply(id, all, 'test')
  expect(await exists(join(bench.root, 'l/x.json'))).toBe(true)
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
