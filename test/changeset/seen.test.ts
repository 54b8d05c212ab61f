import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Bench } from '../../src/engine/changeset/testing.ts'

const approve = { path: 'f', verdict: 'approve' as const }
const chosen = { all: false, include_ignored: false }
const moved = { code: 'changeset.moved', kind: 'busy' }

test('a file whose agent still writes is approved only by who has seen that version of it', async () => {
  await using bench = await Bench.make()
  await bench.user('echo base > f; echo base > g')
  const { changesets } = bench
  const workspace = await bench.workspace()
  const { id } = workspace
  await bench.agent(workspace, 'echo good > f')
  await changesets.capture(workspace, { final: false })
  const unseen = { code: 'changeset.unseen', kind: 'busy' }
  await expect(changesets.decide(id, approve, 'test')).rejects.toMatchObject(unseen)
  await changesets.diff(id, {}, 'test')
  await expect(changesets.decide(id, approve, 'test')).rejects.toMatchObject(unseen)
  await changesets.diff(id, { read: true }, 'somebody else')
  await expect(changesets.decide(id, approve, 'test')).rejects.toMatchObject(unseen)

  const { revision } = await changesets.diff(id, { read: true }, 'test')
  const { anchor } = (await changesets.get(id)).files[0] ?? {}
  expect((await changesets.decide(id, approve, 'test')).files[0]?.decision).toBe('approve')

  await bench.agent(workspace, 'echo evil > f; echo more > g')
  await changesets.capture(workspace, { final: false })
  for (const seen of [{}, { anchor }, { revision }])
    await expect(changesets.decide(id, { ...approve, ...seen }, 'test')).rejects.toMatchObject(moved)
  // That of one file says nothing of another.
  await changesets.diff(id, { path: 'g', read: true }, 'test')
  await expect(changesets.decide(id, approve, 'test')).rejects.toMatchObject(moved)
  // Saying no takes nothing on.
  await changesets.decide(id, { path: 'g', verdict: 'reject' }, 'test')

  await changesets.capture(workspace, { final: true })
  await expect(changesets.decide(id, approve, 'test')).rejects.toMatchObject(moved)
  await expect(changesets.apply(id, chosen, 'test')).rejects.toMatchObject({
    code: 'changeset.nothing_approved',
  })
  await changesets.diff(id, { read: true }, 'test')
  await changesets.decide(id, approve, 'test')
  await changesets.apply(id, chosen, 'test')
  expect(await readFile(join(bench.root, 'f'), 'utf8')).toBe('evil\n')
})

test('a revision that was seen approves the files that are as they were in it, and no others', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir d; seq 9 > d/f; seq 9 > d/g')
  const { changesets } = bench
  const { id, workspace } = await bench.dispatch('echo one >> d/f; echo one >> d/g')
  const { revision } = await changesets.get(id)
  await changesets.decide(id, { path: 'd/g', verdict: 'reject' }, 'test')
  await bench.agent(workspace, 'echo two >> d/g')
  await changesets.capture(workspace, { final: true })
  const decide = (path: string) => changesets.decide(id, { path, verdict: 'approve', revision }, 'test')
  await expect(decide('d')).rejects.toMatchObject(moved)
  await expect(decide('d/g')).rejects.toMatchObject(moved)
  const { files } = await decide('d/f')
  expect(files.map(({ path, decision }) => [path, decision])).toEqual([
    ['d/f', 'approve'],
    ['d/g', null],
  ])
})

test('a hunk that was seen in another version of its file does not approve the mode it has now', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 9 > f; chmod 644 f')
  const { changesets } = bench
  const workspace = await bench.workspace()
  const { id } = workspace
  await bench.agent(workspace, 'echo good >> f')
  await changesets.capture(workspace, { final: false })
  const [seen] = (await changesets.get(id)).files
  const hunk = seen?.hunks[0]?.id
  await bench.agent(workspace, 'chmod 777 f')
  await changesets.capture(workspace, { final: true })
  const { files } = await changesets.decide(id, { ...approve, hunk, anchor: seen?.anchor }, 'test')
  expect(files[0]).toMatchObject({ decision: null, hunks: [{ decision: 'approve' }] })
  await changesets.apply(id, chosen, 'test')
  expect(await bench.snapshot()).toMatch(/^f f 644 /m)
  expect(await readFile(join(bench.root, 'f'), 'utf8')).toContain('good')
})

test('approving all speaks for what its speaker has read, if he has read anything, and not for what the next turn made of it', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 9 > f; seq 9 > g')
  const { changesets } = bench
  const everything = { all: true, include_ignored: false }
  const { id, workspace } = await bench.dispatch('echo one >> f; echo one >> g')
  await changesets.diff(id, { read: true }, 'reader')
  await changesets.reject(id, 'more', 'reader')
  await changesets.reopen(id, workspace.id, 'reader')
  await bench.agent(workspace, 'echo two >> g; echo new > h')
  await changesets.capture(workspace, { final: true })
  const before = await bench.snapshot()
  await expect(changesets.apply(id, everything, 'reader')).rejects.toMatchObject(moved)
  await changesets.diff(id, { read: true, path: 'g' }, 'reader')
  // Nor for what was not there when he read everything.
  await expect(changesets.apply(id, everything, 'reader')).rejects.toMatchObject(moved)
  expect(await bench.snapshot()).toBe(before)
  expect((await changesets.get(id)).files.map(({ decision }) => decision)).toEqual([null, null, null])
  // One that was approved in a version that he names needs nothing more.
  const { revision } = await changesets.get(id)
  await changesets.decide(id, { path: 'h', verdict: 'approve', revision }, 'reader')
  await changesets.apply(id, everything, 'reader')
  // What was taken back is still what he has read.
  await changesets.undo(id, 'reader')
  await changesets.diff(id, { read: true, path: 'h' }, 'reader')
  await changesets.apply(id, everything, 'reader')
  await changesets.undo(id, 'reader')
  // Who has read nothing of it takes it as it is.
  await changesets.apply(id, everything, 'another')
  expect(await readFile(join(bench.root, 'h'), 'utf8')).toBe('new\n')
})
