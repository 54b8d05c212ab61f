import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createChangesets } from '../../src/engine/changeset/changesets.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'

const all = { all: true, include_ignored: false }
const busy = { code: 'changeset.wrong_state', kind: 'busy' }

test('while its agent works a changeset is neither rejected, brought back, applied nor undone', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 9 > f; echo g > g')
  const { id, workspace } = await bench.dispatch('echo one >> f; echo one >> g')
  const { changesets } = bench
  await changesets.decide(id, { path: 'f', verdict: 'approve' }, 'test')
  await changesets.apply(id, { all: false, include_ignored: false }, 'test')
  await changesets.reject(id, 'more', 'test')
  await changesets.reopen(id, (await bench.workspace()).id, 'test')
  await bench.agent(workspace, 'echo half >> g')
  await changesets.capture(workspace, { final: false })
  const before = await bench.snapshot()
  await expect(changesets.reject(id, 'no', 'test')).rejects.toMatchObject(busy)
  await expect(changesets.restore(id, 'test')).rejects.toMatchObject(busy)
  await expect(changesets.apply(id, all, 'test')).rejects.toMatchObject(busy)
  await expect(changesets.undo(id, 'test')).rejects.toMatchObject(busy)
  expect(await bench.snapshot()).toBe(before)
  await changesets.capture(workspace, { final: true })
  expect((await changesets.undo(id, 'test')).state).toBe('review')
})

test('what an agent writes after its changeset was applied or rejected is never hidden', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 9 > f')
  const { changesets } = bench
  const { id, workspace } = await bench.dispatch('echo half >> f')
  await changesets.apply(id, all, 'test')
  // Nothing new changes nothing.
  await changesets.capture(workspace, { final: true })
  expect((await changesets.get(id)).state).toBe('applied')
  await bench.agent(workspace, 'echo rest >> f; echo z > z')
  await changesets.capture(workspace, { final: false })
  const seen = await changesets.get(id)
  expect([seen.state, seen.turn]).toEqual(['active', 1])
  await expect(changesets.apply(id, all, 'test')).rejects.toMatchObject(busy)
  await changesets.capture(workspace, { final: true })
  const { state, files } = await changesets.get(id)
  expect([state, files.map(({ path }) => path)]).toEqual(['review', ['f', 'z']])
  await changesets.reject(id, 'no', 'test')
  await bench.agent(workspace, 'echo more > z')
  await changesets.capture(workspace, { final: true })
  expect((await changesets.get(id)).state).toBe('review')
  await changesets.apply(id, all, 'test')
  expect(await readFile(join(bench.root, 'f'), 'utf8')).toContain('half\nrest\n')
})

test('what has landed can be shown after any number of looks at what came later', async () => {
  await using bench = await Bench.make()
  const { changesets } = bench
  const workspace = await bench.workspace()
  await bench.agent(workspace, 'echo a > a; echo b > b')
  await changesets.capture(workspace, { final: true })
  await changesets.decide(workspace.id, { path: 'a', verdict: 'approve' }, 'test')
  await changesets.apply(workspace.id, { all: false, include_ignored: false }, 'test')
  for (const text of ['c', 'd']) {
    await bench.agent(workspace, `echo ${text} > b`)
    await changesets.capture(workspace, { final: true })
  }
  await bench.agent(workspace, 'rm b')
  await changesets.capture(workspace, { final: true })
  await changesets.apply(workspace.id, all, 'test')
  const fresh = createChangesets({ layout: bench.layout, records: bench.store.changesets })
  expect((await fresh.get(workspace.id)).files.map(({ path }) => path)).toEqual(['a', 'b'])
})
