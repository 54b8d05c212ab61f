import { chownSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Bench } from './testing.ts'

const all = { all: true, include_ignored: false }

test('an undo refuses a folder whose mode the user has set since, and leaves one that has its old mode', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir -m 755 d back; echo f > d/f')
  const { id } = await bench.dispatch('chmod 711 d back')
  await bench.changesets.apply(id, all, 'test')
  await bench.user('chmod 755 back; chmod 700 d')
  await expect(bench.changesets.undo(id, 'test')).rejects.toMatchObject({
    code: 'changeset.conflict',
    details: { conflicts: [{ path: 'd' }] },
  })
  await bench.user('chmod 711 d')
  await bench.changesets.undo(id, 'test')
  for (const name of ['d', 'back']) expect(statSync(join(bench.root, name)).mode & 0o777).toBe(0o755)
})

test('a folder that the changeset closed comes back open, and is a conflict once the user has opened it', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir -m 755 d; echo f > d/f')
  const { id } = await bench.dispatch('chmod 000 d')
  await bench.changesets.apply(id, all, 'test')
  await bench.user('chmod 700 d')
  await expect(bench.changesets.undo(id, 'test')).rejects.toMatchObject({ code: 'changeset.conflict' })
  await bench.user('chmod 000 d')
  await bench.changesets.undo(id, 'test')
  expect(statSync(join(bench.root, 'd')).mode & 0o777).toBe(0o755)
})

test('what root brings back by an undo belongs to whom it belonged to', async (context) => {
  if (process.getuid?.() !== 0) return context.skip('only root gives files away')
  await using bench = await Bench.make()
  await bench.user('mkdir d; echo f > d/f; chmod 777 d')
  chownSync(join(bench.root, 'd/f'), 1000, 1001)
  const { id } = await bench.dispatch('rm -r d')
  await bench.changesets.apply(id, all, 'test')
  await bench.changesets.undo(id, 'test')
  expect(statSync(join(bench.root, 'd/f'))).toMatchObject({ uid: 1000, gid: 1001 })
  expect(statSync(join(bench.root, 'd')).mode & 0o777).toBe(0o777)
})
