import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Bench } from '../testing.ts'

const moved = { code: 'changeset.moved', kind: 'busy' }
const approve = (path: string) => ({ path, verdict: 'approve' as const })
const read = { read: true }

/** Both files are there in a first version, and somebody has read it. */
async function readByMe(bench: Bench) {
  const workspace = await bench.workspace()
  await bench.agent(workspace, 'echo good > f; echo g > g')
  await bench.changesets.capture(workspace, { final: false })
  await bench.changesets.diff(workspace.id, read, 'me')
  return workspace
}
async function next(bench: Bench, workspace: Awaited<ReturnType<Bench['workspace']>>, script: string) {
  await bench.agent(workspace, script)
  await bench.changesets.capture(workspace, { final: false })
}

test('a diff that has no text of a file does not count as having seen it', async () => {
  await using bench = await Bench.make()
  await bench.user('echo base > f; echo base > g')
  const workspace = await readByMe(bench)
  const { id } = workspace
  await next(bench, workspace, 'echo evil > f')
  for (const options of [{ inter: true }, { stat: true }, { path: 'g' }, { maxBytes: 10 }]) {
    await bench.changesets.diff(id, { ...read, ...options }, 'me')
    await expect(bench.changesets.decide(id, approve('f'), 'me')).rejects.toMatchObject(moved)
  }
  await bench.changesets.diff(id, { ...read, path: 'f' }, 'me')
  expect((await bench.changesets.decide(id, approve('f'), 'me')).files[0]!.decision).toBe('approve')
})

test('since my last review is since what was read when something was decided, not since what was newest then', async () => {
  await using bench = await Bench.make()
  await bench.user('echo base > f; echo base > g')
  const { changesets } = bench
  const workspace = await readByMe(bench)
  const { id } = workspace
  await next(bench, workspace, 'echo evil > f')
  await next(bench, workspace, 'echo worse > f')
  await changesets.decide(id, { path: 'g', verdict: 'reject' }, 'me')
  await changesets.capture(workspace, { final: true })
  await expect(changesets.decide(id, approve('f'), 'me')).rejects.toMatchObject(moved)
  const since = await changesets.diff(id, { ...read, scope: 'review' }, 'me')
  expect(since.text).toContain('-good\n+worse\n')
  // He had seen the one side and is shown the way from it: he has seen the other.
  await changesets.decide(id, approve('f'), 'me')
  expect((await changesets.diff(id, { scope: 'review' }, 'me')).text).toBe('')
})

test('what became of a version that somebody has not seen does not show him the file', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 30 > f; echo base > g')
  const { changesets } = bench
  const workspace = await bench.workspace()
  const { id } = workspace
  await next(bench, workspace, 'echo one >> f')
  await changesets.diff(id, { ...read, path: 'f' }, 'me')
  await next(bench, workspace, 'sed -i s/^3$/evil/ f; echo g > g')
  await changesets.decide(id, { path: 'g', verdict: 'reject' }, 'me')
  await next(bench, workspace, 'sed -i s/^20$/twenty/ f')
  const { text } = await changesets.diff(id, { ...read, scope: 'review' }, 'me')
  expect([text.includes('+twenty'), text.includes('+evil')]).toEqual([true, false])
  await expect(changesets.decide(id, approve('f'), 'me')).rejects.toMatchObject(moved)
})

test('what was read before it was sent back is not approved as what the next turn made of it', async () => {
  await using bench = await Bench.make()
  await bench.user('echo base > f')
  const { changesets } = bench
  const { id, workspace } = await bench.dispatch('echo good > f')
  await changesets.diff(id, read, 'me')
  await changesets.reject(id, 'more', 'somebody else')
  await changesets.reopen(id, (await bench.workspace()).id, 'somebody else')
  await bench.agent(workspace, 'echo evil > f; echo new > n')
  await changesets.capture(workspace, { final: true })
  // Neither is what came after everything was read, by its name or with its folder.
  for (const path of ['f', 'n', '.'])
    await expect(changesets.decide(id, approve(path), 'me')).rejects.toMatchObject(moved)
  await changesets.diff(id, read, 'me')
  await changesets.decide(id, approve('.'), 'me')
})

test('who reads an export is held to what it said, like who reads a diff', async () => {
  await using bench = await Bench.make()
  await bench.user('echo base > f; echo base > g')
  const { changesets } = bench
  const workspace = await bench.workspace()
  const { id } = workspace
  const formats = ['json', 'patch', 'tar'] as const
  await next(bench, workspace, 'echo good > f; echo g > g')
  for (const format of formats) await changesets.export(id, { format }, format)
  await bench.agent(workspace, 'echo evil > f')
  await changesets.capture(workspace, { final: true })
  for (const format of formats) {
    await expect(changesets.decide(id, approve('f'), format)).rejects.toMatchObject(moved)
    await changesets.decide(id, approve('g'), format)
  }
})

test('a file that was read stays read when a part of it has landed, or was taken back', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 60 > f')
  const { changesets } = bench
  const { id } = await bench.dispatch('sed -i "s/^5$/five/; s/^50$/fifty/" f')
  await changesets.diff(id, read, 'me')
  const [five] = (await changesets.get(id)).files[0]!.hunks
  await changesets.decide(id, { ...approve('f'), hunk: five!.id }, 'me')
  await changesets.apply(id, { all: false, include_ignored: false }, 'me')
  await changesets.decide(id, approve('f'), 'me')
  await changesets.undo(id, 'me')
  await changesets.decide(id, approve('f'), 'me')
  await changesets.apply(id, { all: false, include_ignored: false }, 'me')
  expect(await readFile(join(bench.root, 'f'), 'utf8')).toContain('\nfifty\n')
})
