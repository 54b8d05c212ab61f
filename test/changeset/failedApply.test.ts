import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { realDisk, type Disk } from '../../src/engine/changeset/disk.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'
import { run } from '../../src/engine/base/process.ts'

const all = { all: true, include_ignored: false }

/** A disk that is full, while it is said to be, for whatever takes its place in a user's folder. */
function fullDisk(): { disk: Disk; isFull: boolean } {
  const state = {
    isFull: false,
    disk: {
      ...realDisk,
      rename: async (from, to) => {
        if (state.isFull && /\/n\d+$/.test(String(from)))
          throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' })
        return realDisk.rename(from, to)
      },
    } satisfies Disk as Disk,
  }
  return state
}

test('an apply that fails with nothing changed leaves every decision as it was, and what was approved before stays so', async () => {
  const state = fullDisk()
  await using bench = await Bench.make(['project'], { disk: state.disk })
  await bench.user('echo a > a; echo b > b; echo c > c')
  const { id } = await bench.dispatch('echo 2 >> a; echo 2 >> b; echo 2 >> c')
  await bench.changesets.decide(id, { path: 'a', verdict: 'approve' }, 'anna')
  await bench.changesets.decide(id, { path: 'b', verdict: 'reject' }, 'anna')
  const before = bench.store.changesets.decisions(id)
  state.isFull = true
  await expect(bench.changesets.apply(id, all, 'anna')).rejects.toMatchObject({
    code: 'changeset.apply_failed',
    message: expect.stringContaining('no space is left'),
  })
  expect(await readFile(join(bench.root, 'c'), 'utf8')).toBe('c\n')
  expect(bench.store.changesets.decisions(id)).toEqual(before)
  state.isFull = false
  const { applied } = await bench.changesets.apply(id, all, 'anna')
  expect(applied.map(({ path }) => path)).toEqual(['a', 'c'])
  expect(bench.store.changesets.decisions(id).find(({ path }) => path === 'c')?.verdict).toBe('approve')
})

test('a file that is immutable is named, with what shows it', async (context) => {
  await using bench = await Bench.make()
  await bench.user('echo a > a; echo b > b')
  const { id } = await bench.dispatch('echo 2 >> a; echo 2 >> b')
  const file = join(bench.root, 'b')
  if ((await run('chattr', ['+i', file])).code !== 0) context.skip('no file can be made immutable here')
  try {
    await expect(bench.changesets.apply(id, all, 'anna')).rejects.toMatchObject({
      message: expect.stringContaining(`${file} may not be replaced by you`),
      hint: expect.stringContaining(`lsattr -d ${file}`),
    })
    expect(await readFile(join(bench.root, 'a'), 'utf8')).toBe('a\n')
  } finally {
    await run('chattr', ['-i', file])
  }
})
