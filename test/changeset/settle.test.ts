import { appendFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run } from '../../src/engine/base/process.ts'
import { createChangesets } from '../../src/engine/changeset/changesets.ts'
import type { CommitRequest } from '../../src/engine/changeset/commits/commitRequest.ts'
import { watchedDisk } from '../../src/engine/changeset/disk.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'

const all = { all: true, include_ignored: false }
const committed =
  'git init -q .; git config user.name U; git config user.email u@x; git add .; git commit -qm first'

/** An apply that was cut off after one of three files had landed, and a user who then wrote one of the others. */
async function cutOff(bench: Bench, flag: string | null = null, commit?: CommitRequest) {
  await bench.user('echo a > a; echo b > b; echo c > c')
  if (commit !== undefined) await bench.user(committed)
  const { id } = await bench.dispatch('echo A > a; echo B > b; rm c')
  await bench.changesets.escalate(id, flag, 'anna')
  let links = 0
  const disk = watchedDisk((operation) => {
    if (operation === 'link') links += 1
    if (links > 1) throw Object.assign(new Error('EIO: injected'), { code: 'EIO' })
  })
  const { layout, store } = bench
  const dying = createChangesets({ layout, records: store.changesets, disk })
  await expect(dying.apply(id, { ...all, commit }, 'test')).rejects.toMatchObject({
    code: 'changeset.apply_cut_off',
  })
  expect(await readFile(join(bench.root, 'a'), 'utf8')).toBe('A\n')
  await appendFile(join(bench.root, 'b'), 'mine\n')
  await bench.changesets.recover()
  const { escalated, stopped } = await bench.changesets.get(id)
  expect(escalated).toContain('b: it is neither what it was nor what it should become')
  // Seen before anybody tries to apply again.
  expect(stopped).toEqual({ root: bench.root, path: 'b' })
  expect(await bench.changesets.list()).toMatchObject([{ id, escalated }])
  await expect(bench.changesets.apply(id, all, 'test')).rejects.toMatchObject({
    code: 'changeset.neither_old_nor_new',
  })
  await expect(bench.changesets.settle(id, { path: 'x' }, 'mine')).rejects.toMatchObject({ kind: 'input' })
  return id
}
const contents = (bench: Bench) =>
  Promise.all(['a', 'b', 'c'].map((name) => readFile(join(bench.root, name), 'utf8').catch(() => null)))

test('a file that a crash left neither old nor new can be kept, and the rest of the apply is finished around it', async () => {
  await using bench = await Bench.make()
  const id = await cutOff(bench)
  expect(await bench.changesets.settle(id, { path: 'b' }, 'mine')).toEqual({ id, state: 'applied' })
  expect(await contents(bench)).toEqual(['A\n', 'b\nmine\n', null])
  expect(await bench.changesets.get(id)).toMatchObject({ escalated: null, stopped: null })
  expect(await bench.snapshot()).not.toContain('.orangery-apply')
  const { applied } = await bench.changesets.undo(id, 'test')
  expect(await contents(bench)).toEqual(['a\n', 'b\nmine\n', 'c\n'])
  // What was left alone has not been taken back either.
  expect(applied.map(({ path }) => path)).toEqual(['a', 'c'])
})

test("or be replaced by the agent's, and undo brings back what the user had written", async () => {
  await using bench = await Bench.make()
  const id = await cutOff(bench)
  expect(await bench.changesets.settle(id, { path: 'b' }, 'theirs')).toEqual({ id, state: 'applied' })
  expect(await contents(bench)).toEqual(['A\n', 'B\n', null])
  await bench.changesets.undo(id, 'test')
  expect(await contents(bench)).toEqual(['a\n', 'b\nmine\n', 'c\n'])
})

test('a flag that a recovery raised is gone once one succeeds, and one that a person raised stays', async () => {
  for (const by of ['orangery', 'anna']) {
    await using bench = await Bench.make()
    const id = await cutOff(bench)
    if (by === 'anna') await bench.changesets.escalate(id, 'please look', by)
    // The user puts back what he had changed meanwhile.
    await writeFile(join(bench.root, 'b'), 'b\n')
    await bench.changesets.recover()
    expect(await contents(bench)).toEqual(['A\n', 'B\n', null])
    expect(await bench.changesets.get(id)).toMatchObject({
      state: 'applied',
      escalated: by === 'anna' ? 'please look' : null,
      stopped: null,
    })
  }
})

test('what a person flagged before a crash is told beside what stopped the recovery, and stays when that is settled', async () => {
  for (const choice of ['mine', 'theirs'] as const) {
    await using bench = await Bench.make()
    const id = await cutOff(bench, 'touches the licence')
    const { escalated } = await bench.changesets.get(id)
    expect(escalated).toMatch(/^touches the licence; stopped at b: [^;]+$/)
    await bench.changesets.settle(id, { path: 'b' }, choice)
    const settled = await bench.changesets.get(id)
    expect(settled).toMatchObject({ escalated: 'touches the licence', stopped: null })
    const flags = settled.transitions.filter(({ why }) => why.includes('escalated')).slice(1)
    expect(flags.map(({ by, why }) => [by, why.replace(/: stopped at b: .*/, ': …')])).toEqual([
      ['orangery', 'escalated: …'],
      ['orangery', 'not escalated any more: …'],
    ])
    expect(await bench.changesets.escalate(id, null, 'bert')).toMatchObject({ escalated: null })
  }
})

test('a person takes a flag back as a whole, and a later crash does not bring it up again', async () => {
  await using bench = await Bench.make()
  const id = await cutOff(bench, 'touches the licence')
  await bench.changesets.escalate(id, null, 'bert')
  await bench.changesets.recover()
  expect((await bench.changesets.get(id)).escalated).toMatch(/^stopped at b: /)
})

test('what a person kept after a crash is not in the commit that was asked for, and the rest is', async () => {
  await using bench = await Bench.make()
  const id = await cutOff(bench, null, { branch: 'landed', own: false, hooks: false })
  await bench.changesets.settle(id, { path: 'b' }, 'mine')
  const { stdout } = await run('git', ['diff', '--name-status', 'HEAD', 'landed'], { cwd: bench.root })
  expect(stdout.toString()).toBe('M\ta\nD\tc\n')
})

const inTheWay = { branch: 'landed', own: false, hooks: false }
const noCommit = expect.stringMatching(/^no commit was made: .*landed/)

test('a commit that could not be made once a crash was settled is told to who settled it', async () => {
  await using bench = await Bench.make()
  const id = await cutOff(bench, null, inTheWay)
  await bench.user('git branch landed/below')
  const { notes } = await bench.changesets.settle(id, { path: 'b' }, 'mine')
  expect(notes).toContainEqual(noCommit)
  expect(await bench.changesets.get(id)).toMatchObject({ escalated: null })
})

test('what an undo finished first is told with it, and flagged where the undo itself is refused', async () => {
  for (const isRefused of [false, true]) {
    await using bench = await Bench.make()
    const id = await cutOff(bench, null, inTheWay)
    await bench.user('git branch landed/below; echo b > b')
    if (isRefused) await bench.user('chmod 600 a')
    const undone = bench.changesets.undo(id, 'test')
    if (isRefused) {
      await expect(undone).rejects.toMatchObject({ code: 'changeset.conflict' })
      expect((await bench.changesets.get(id)).escalated).toEqual(noCommit)
    } else {
      expect((await undone).notes).toContainEqual(noCommit)
      expect((await bench.changesets.get(id)).escalated).toBe(null)
    }
  }
})
