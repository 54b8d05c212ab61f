import { cp, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { git } from '../../base/git.ts'
import { Bench } from '../testing.ts'

test('what changed after it was decided on is shown against what was decided on, whatever was decided since', async () => {
  await using bench = await Bench.make(['project', 'second'])
  await bench.user('seq 30 > numbers; seq 5 > other; echo s > ../second/s')
  const { id, workspace } = await bench.dispatch(
    'sed -i s/^3$/three/ numbers; sed -i s/^2$/two/ other; echo S > ../second/s',
  )
  const { changesets } = bench
  await changesets.decide(id, { path: 'numbers', verdict: 'approve' }, 'me')
  await changesets.reject(id, 'spell it out', 'me')
  await changesets.reopen(id, (await bench.workspace()).id, 'me')
  await bench.agent(
    workspace,
    'sed -i "s/^three$/three, spelled out/" numbers; mv numbers figures; echo n > n',
  )
  await changesets.capture(workspace, { final: true })
  // Another decision moves "since my last review" on; the file is still open.
  await changesets.decide(id, { path: 'n', verdict: 'approve' }, 'me')

  const whole = await changesets.diff(id, { inter: true }, 'me')
  expect(whole.text).toContain('-three\n+three, spelled out\n')
  expect(whole.text).toContain('rename to project/figures')
  expect(whole.text).not.toContain('-3\n')
  expect(whole.text).not.toContain('other')
  expect((await changesets.diff(id, { inter: true, path: 'other' }, 'me')).text).toBe('')
  expect((await changesets.diff(id, { scope: 'review' }, 'me')).text).toBe('')

  // Renames too are told with the name of the root: what is said applies to a copy of the originals.
  const patch = await changesets.diff(id, {}, 'me')
  const copy = join(bench.folder, 'copy')
  await cp(bench.root, join(copy, 'project'), { recursive: true })
  await cp(join(bench.folder, 'second'), join(copy, 'second'), { recursive: true })
  await git(['apply', '-'], { cwd: copy, input: patch.text })
  expect(await readFile(join(copy, 'project/figures'), 'utf8')).toContain('three, spelled out')

  const { text } = await changesets.diff(id, { stat: true }, 'me')
  expect(text).toMatch(/^ project\/other +\|/m)
  expect(text).toMatch(/^ second\/s +\|/m)
})

test('a new file with the content another changed file had is told as its copy, and lands like any new file', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 9 > original; : > empty; echo moved > old')
  const { id } = await bench.dispatch(
    'cp original copy; echo more >> original; : > new; mv old first; cp first second; echo x >> empty',
  )
  const { files } = await bench.changesets.get(id)
  const told = files.map(({ path, change, from_path, copy_of }) => [path, change, from_path ?? copy_of])
  expect(told).toEqual([
    ['copy', 'added', 'original'],
    ['empty', 'modified', undefined],
    ['first', 'renamed', 'old'],
    ['new', 'added', undefined],
    ['original', 'modified', undefined],
    ['second', 'added', 'old'],
  ])
  await bench.changesets.decide(id, { path: 'copy', verdict: 'approve' }, 'me')
  await bench.changesets.apply(id, { all: false, include_ignored: false }, 'me')
  expect(await bench.snapshot()).toMatch(/^copy f 644/m)
  expect((await bench.changesets.get(id)).files.map(({ path }) => path)).not.toContain('copy')
})

test('a copy of a file that did not change is told too, edited or not, from beside it or from a folder beside', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir -p src/deep lib; seq 9 > src/deep/a; seq 8 > src/b; seq 7 > top')
  await bench.user('seq 100 > long.txt; seq 201 300 > far.txt')
  const { id } = await bench.dispatch(
    `cp top under; cp -r src new; cp src/b lib/b; echo own > lib/other
     sed s/^5$/five/ long.txt > edited.txt; (seq 1 30; seq 501 570) > unlike.txt; sed s/^5$/five/ long.txt > long.md`,
  )
  const { files } = await bench.changesets.get(id)
  const told = files.map(({ path, change, copy_of, copy_similarity }) => [
    path,
    change,
    copy_of,
    copy_similarity,
  ])
  expect(told).toEqual([
    ['edited.txt', 'added', 'long.txt', 98],
    ['lib/b', 'added', 'src/b', 100],
    ['lib/other', 'added', undefined, undefined],
    ['long.md', 'added', undefined, undefined],
    ['new/b', 'added', 'src/b', 100],
    ['new/deep/a', 'added', 'src/deep/a', 100],
    ['under', 'added', 'top', 100],
    ['unlike.txt', 'added', undefined, undefined],
  ])
})

test('who gives up, or applies, what cannot be any more is told the way out; a conflict names the command', async () => {
  await using bench = await Bench.make()
  await bench.user('printf "one\\r\\n" > file')
  const { id } = await bench.dispatch('printf "two\\r\\n" > file')
  const { changesets } = bench
  await bench.user('printf "three\\r\\n" > file')
  await expect(changesets.apply(id, { all: true, include_ignored: false }, 'me')).rejects.toMatchObject({
    hint: expect.stringContaining(`orangery changeset resolve ${id} `) as string,
  })
  // Line ends and encodings are the person's own business.
  const { both } = await changesets.conflictTexts(id, { path: 'file' })
  expect(both.toString()).toMatch(/^<<<<<<< yours\r\nthree\r\n[^]*two\r\n>>>>>>> the agent's\r\n$/)
  const edited = Buffer.from('both\r\n\xff\r\n', 'latin1')
  const content_b64 = edited.toString('base64')
  await changesets.resolve(id, { path: 'file', choice: 'edit', content_b64 }, 'me')
  await changesets.apply(id, { all: true, include_ignored: false }, 'me')
  expect((await readFile(join(bench.root, 'file'))).equals(edited)).toBe(true)
  await expect(changesets.abandon(id, 'me')).rejects.toMatchObject({
    hint: expect.stringContaining(`orangery changeset undo ${id}`) as string,
  })
  await changesets.undo(id, 'me')
  await changesets.abandon(id, 'me')
  await expect(changesets.abandon(id, 'me')).rejects.toMatchObject({
    message: `changeset ${id} is abandoned already`,
    hint: expect.stringContaining(`orangery changeset restore ${id}`) as string,
  })
})
