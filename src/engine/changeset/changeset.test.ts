import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Bench } from './testing.ts'

test('what an agent added, edited and deleted lands exactly, and only on apply', async () => {
  await using bench = await Bench.make()
  await bench.user('printf "one\\ntwo\\n" > a.txt; printf x > gone.txt; mkdir d; echo y > d/y')
  const before = await bench.snapshot()
  const { id } = await bench.dispatch(
    'echo three >> a.txt; rm gone.txt; rm -r d; mkdir -p n/m; echo new > n/m/new.txt',
  )
  expect(await bench.snapshot()).toBe(before)
  const changeset = await bench.changesets.get(id)
  expect(changeset.state).toBe('review')
  expect(changeset.files.map((file) => [file.path, file.change])).toEqual([
    ['a.txt', 'modified'],
    ['d/y', 'deleted'],
    ['gone.txt', 'deleted'],
    ['n/m/new.txt', 'added'],
  ])
  const { text } = await bench.changesets.diff(id, {})
  expect(text).toContain('+three')
  const result = await bench.changesets.apply(id, { all: true, include_ignored: false }, 'test')
  expect(result).toMatchObject({ state: 'applied', skipped: [] })
  expect(await readFile(join(bench.root, 'a.txt'), 'utf8')).toBe('one\ntwo\nthree\n')
  const after = await bench.snapshot()
  expect(after).not.toContain('gone.txt')
  expect(after).not.toContain('.orangery-apply')
  await bench.changesets.undo(id, 'test')
  expect(await bench.snapshot()).toBe(before)
  expect((await bench.changesets.get(id)).state).toBe('review')
})
