import { lstat, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { DispatchId } from '../../src/shared/ids.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'

const all = { all: true, include_ignored: false }
const isThere = (path: string) =>
  lstat(path).then(
    () => true,
    () => false,
  )
async function applyAll(bench: Bench, id: DispatchId): Promise<{ applied: string[]; skipped: string[] }> {
  const { applied, skipped } = await bench.changesets.apply(id, all, 'test')
  const names = (list: readonly { path: string }[]) => list.map(({ path }) => path).toSorted()
  return { applied: names(applied), skipped: names(skipped) }
}

test('a link that leaves the root because a swap on its way does not land stays out, and lands with the swap', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir -p a/b/c .vscode sw; echo z > a/b/c/z; echo 1 > .vscode/s; echo 1 > sw/s')
  const { id } = await bench.dispatch(`
    rm -r .vscode; ln -s a/b/c .vscode; ln -s .vscode/../../secret l
    rm -r sw; ln -s a/b/c sw; ln -s sw/../../secret m; ln -s a/b/c/z fine`)
  await bench.changesets.decide(id, { path: 'sw', verdict: 'reject' }, 'test')
  const first = await applyAll(bench, id)
  expect(first.applied).toContain('fine')
  expect(first.skipped).toEqual(expect.arrayContaining(['.vscode', 'l', 'm', 'sw']))
  for (const name of ['l', 'm']) expect(await isThere(join(bench.root, name))).toBe(false)

  for (const path of ['.vscode', '.vscode/s'])
    await bench.changesets.decide(id, { path, verdict: 'approve' }, 'test')
  expect((await applyAll(bench, id)).applied).toEqual(expect.arrayContaining(['.vscode', 'l']))
})

test('a link does not land through a link of the user that has led out since the agent ended', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir d ../secret; echo 1 > d/x')
  const { id } = await bench.dispatch('ln -s d/x l; ln -s d e; echo 2 > z')
  await bench.user('mv d ../secret/d; ln -s ../secret/d d')
  expect(await applyAll(bench, id)).toEqual({ applied: ['z'], skipped: ['e', 'l'] })
})

test('what cannot land because a part of it was skipped is skipped too, and the rest lands', async () => {
  await using bench = await Bench.make()
  await bench.user(
    `mkdir -p d r/sub; echo '{}' > d/.mcp.json; echo 1 > d/y; echo 1 > r/sub/x; echo 1 > z; echo 1 > g`,
  )
  const before = await bench.snapshot()
  const { id } = await bench.dispatch(
    'rm -r d r g; echo f > d; ln -s z r; mkdir g; echo in > g/in; echo 2 > z; echo 2 > y',
  )
  await bench.changesets.decide(id, { path: 'r/sub/x', verdict: 'reject' }, 'test')
  await bench.changesets.decide(id, { path: 'g', verdict: 'reject' }, 'test')
  const { applied, skipped } = await applyAll(bench, id)
  expect(applied).toEqual(['y', 'z'])
  expect(skipped).toEqual(['d', 'd/.mcp.json', 'd/y', 'g', 'g/in', 'r', 'r/sub/x'])
  // Nobody has said yes to what did not land.
  const { files } = await bench.changesets.get(id)
  expect(files.filter(({ decision }) => decision === 'approve')).toEqual([])
  await bench.changesets.undo(id, 'test')
  expect(await bench.snapshot()).toBe(before)
})

test('a folder that cannot go yet, because what was in it is held back, goes with it at the next apply', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir -p c/e d; seq 30 > c/e/f; echo 1 > d/x')
  const before = await bench.snapshot()
  const { id } = await bench.dispatch('rm -r d; mv c/e/f d; rm -r c; echo new > other')
  for (const path of ['d', 'other']) await bench.changesets.decide(id, { path, verdict: 'approve' }, 'test')
  const { applied, skipped } = await bench.changesets.apply(id, { ...all, all: false }, 'test')
  expect(applied.map(({ path }) => path)).toEqual(['other'])
  expect(skipped).toMatchObject([{ path: 'd/x' }, { path: 'd', why: 'd/x stays in it' }])
  expect((await applyAll(bench, id)).applied).toEqual(['d', 'd/x'])
  expect(await isThere(join(bench.root, 'c'))).toBe(false)
  await bench.changesets.undo(id, 'test')
  expect(await bench.snapshot()).toBe(before)
})

// With most of its text anew nobody can be sure that it is the same file; that it goes and does not come is wrong either way.
for (const [what, text] of Object.entries({ moved: 'cat', 'moved and rewrote': 'sed s/^2./two/' }))
  test(`a file that the agent ${what} stays where it is while its new place cannot land, and its folder with it`, async () => {
    await using bench = await Bench.make()
    await bench.user('mkdir c; seq 30 > c/f; echo 1 > d')
    const before = await bench.snapshot()
    const { id } = await bench.dispatch(`rm d; mkdir d; ${text} c/f > d/new; rm -r c; echo new > other`)
    expect((await bench.changesets.get(id)).files).toContainEqual(
      expect.objectContaining({ path: 'd/new', change: 'renamed' }),
    )
    await bench.changesets.decide(id, { path: 'd', verdict: 'reject' }, 'test')
    expect(await applyAll(bench, id)).toEqual({ applied: ['other'], skipped: ['d', 'd/new'] })
    await bench.user('rm other')
    expect(await bench.snapshot()).toBe(before)
    await bench.user('echo new > other')
    await bench.changesets.decide(id, { path: 'd', verdict: 'approve' }, 'test')
    expect((await applyAll(bench, id)).applied).toEqual(['d', 'd/new'])
    expect(await isThere(join(bench.root, 'c'))).toBe(false)
    await bench.changesets.undo(id, 'test')
    expect(await bench.snapshot()).toBe(before)
  })

test('an ignore file of which only a part lands, or that is woven with yours, does not show our marker either', async () => {
  await using bench = await Bench.make()
  const list = join(bench.root, '.gitignore')
  await bench.user(
    'mkdir .agency; touch .agency/INTEGRATION_MARKER; seq 40 > .gitignore; echo ".agency/*_MARKER" >> .gitignore',
  )
  const before = await readFile(list, 'utf8')
  const { id } = await bench.dispatch(
    'sed -i "1i !.agency/*" .gitignore; echo ".agency/*MARKER" >> .gitignore; echo n > n',
  )
  await bench.user("sed -i '/_MARKER/d' .gitignore")
  const { files } = await bench.changesets.get(id)
  const hunks = files.find(({ path }) => path === '.gitignore')?.hunks ?? []
  const decide = (hunk: string, verdict: 'approve' | 'reject') =>
    bench.changesets.decide(id, { path: '.gitignore', hunk, verdict }, 'test')
  expect(hunks).toHaveLength(2)
  await decide(hunks[0]!.id, 'approve')
  await decide(hunks[1]!.id, 'reject')
  const { applied, skipped } = await bench.changesets.apply(id, all, 'test')
  expect(applied.map(({ path }) => path)).toEqual(['n'])
  expect(skipped).toContainEqual({
    path: '.gitignore',
    why: expect.stringContaining('would show .agency/INTEGRATION_MARKER to git') as string,
  })
  expect(await readFile(list, 'utf8')).toBe(before.replace('.agency/*_MARKER\n', ''))
})

test('a conflict whose one way out is "mine" is settled by it, and what depends on it stays out', async () => {
  await using bench = await Bench.make()
  await bench.user(
    `mkdir dir t p; echo 1 > dir/x; echo 1 > t/x; echo 1 > g; echo 1 > h; echo 1 > p/f; echo the only one > old`,
  )
  const { id } = await bench.dispatch(`
    echo 2 > dir/x; mv old dir/new; rm -r t; echo f > t; rm g h; mkdir g h; echo in > g/in; echo in > h/in
    echo 2 > p/f; mkdir n; echo in > n/in; echo 2 > z`)
  await bench.user(`
    mv dir ../real; ln -s ../real dir; mkdir t/sub; echo mine > t/sub/own; echo mine > g; rm h; ln -s z h
    rm p/f; mkfifo p/f; echo mine > n`)
  const mine = await bench.snapshot()
  const { conflicts } = await bench.changesets.conflicts(id)
  expect(conflicts.map(({ path }) => path).toSorted()).toEqual([
    'dir/new',
    'dir/x',
    'g',
    'h',
    'n',
    'p/f',
    't',
  ])
  for (const { path } of conflicts) await bench.changesets.resolve(id, { path, choice: 'mine' }, 'test')
  await bench.changesets.apply(id, all, 'test')
  expect(await readFile(join(bench.root, 'z'), 'utf8')).toBe('2\n')
  await bench.user('rm z')
  expect(await bench.snapshot()).toBe(mine)
})

test('a link that stayed only because its way was not there is not led out by a later change', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir x; echo secret > ../secret')
  const first = await bench.dispatch('ln -s b/c/../../secret a; ln -s x fine')
  expect((await applyAll(bench, first.id)).applied).toEqual(['a', 'fine'])
  const second = await bench.dispatch('mkdir b; ln -s ../x b/c; ln -s x other')
  const { applied, skipped } = await applyAll(bench, second.id)
  expect(applied).toContain('other')
  expect(skipped).toEqual(['b/c'])
  expect(await isThere(join(bench.root, 'a'))).toBe(true)
  expect(await readFile(join(bench.root, 'a'), 'utf8').catch(() => null)).toBeNull()
})

test('an undo does not lead a link out that has come since', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir -p x b; echo secret > ../secret; ln -s ../x b/c')
  const first = await bench.dispatch('rm b/c')
  await applyAll(bench, first.id)
  const second = await bench.dispatch('ln -s b/c/../../secret a')
  expect((await applyAll(bench, second.id)).applied).toEqual(['a'])
  await expect(bench.changesets.undo(first.id, 'test')).rejects.toMatchObject({
    code: 'changeset.conflict',
    message: expect.stringContaining('lead out') as string,
  })
  expect(await isThere(join(bench.root, 'b/c'))).toBe(false)
  await bench.changesets.undo(second.id, 'test')
  await bench.changesets.undo(first.id, 'test')
  expect(await isThere(join(bench.root, 'b/c'))).toBe(true)
})

test('a link is not led out by what lands later in a root inside its own, or in one of its roots alone', async () => {
  await using bench = await Bench.make(['project', 'beside'])
  await bench.user('mkdir -p sub ../beside/y; echo o > sub/o; echo in > secret; echo out > ../secret')
  const [project = '', beside = ''] = bench.roots
  const { changesets } = bench
  const first = await bench.dispatch(
    'ln -s sub/x/../../secret a; ln -s ../beside/x/y/../../secret b; ln -s sub/z/../o fine',
  )
  await changesets.apply(first.id, all, 'anna')
  expect(await readlink(join(project, 'b'))).toBe('../beside/x/y/../../secret')
  for (const inner of [join(project, 'sub'), beside]) {
    const { id } = await bench.dispatch('ln -s . x; ln -s . w', bench.workspace([inner]))
    const { applied, skipped } = await changesets.apply(id, all, 'anna')
    expect(applied.map(({ path }) => path)).toEqual(['w'])
    expect(skipped).toMatchObject([{ path: 'x', why: expect.stringContaining('would lead out') as string }])
  }
})

test('an undo in a root inside another does not lead a link of that one out', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir sub; ln -s . sub/x; echo in > secret')
  const { changesets } = bench
  const inner = await bench.dispatch('rm x', bench.workspace([join(bench.root, 'sub')]))
  await changesets.apply(inner.id, all, 'anna')
  const outer = await bench.dispatch('ln -s sub/x/../../secret a')
  await changesets.apply(outer.id, all, 'anna')
  await expect(changesets.undo(inner.id, 'anna')).rejects.toMatchObject({ code: 'changeset.conflict' })
  await changesets.undo(outer.id, 'anna')
  await changesets.undo(inner.id, 'anna')
  expect(await readlink(join(bench.root, 'sub/x'))).toBe('.')
})
