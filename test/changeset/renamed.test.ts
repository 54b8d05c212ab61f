import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run } from '../../src/engine/base/process.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'

const all = { all: true, include_ignored: false }

test('what the user wrote under the old name of a renamed file is woven in under the new one, and undo brings both back', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 20 > edited; seq 30 > pure; mkdir d; seq 40 > d/inside')
  const { id } = await bench.dispatch(
    'mv edited edited2; sed -i s/^3$/three/ edited2; mv pure pure2; mv d e; sed -i s/^3$/three/ e/inside',
  )
  await bench.user(
    'sed -i s/^17$/mine/ edited; printf mine > pure; sed -i s/^37$/mine/ d/inside; chmod 600 pure',
  )
  const before = await bench.snapshot()
  const { conflicts, merged } = await bench.changesets.conflicts(id)
  expect([conflicts, merged]).toEqual([[], ['e/inside', 'edited2', 'pure2']])
  const { state, applied } = await bench.changesets.apply(id, all, 'test')
  expect([state, applied.map(({ path }) => path)]).toEqual(['applied', ['e/inside', 'edited2', 'pure2']])
  const read = (path: string) => readFile(join(bench.root, path), 'utf8')
  for (const path of ['edited2', 'e/inside']) expect(await read(path)).toMatch(/three\n[^]*mine\n/)
  expect(await read('pure2')).toBe('mine')
  expect(await bench.snapshot()).toMatch(/^e d .*\ne\/inside f .*\nedited2 f .*\npure2 f 600 \n[^dep]/)
  await bench.changesets.undo(id, 'test')
  expect(await bench.snapshot()).toBe(before)
})

test('where both changed the same lines of a renamed file, each of four choices settles it', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 20 > old')
  const { id } = await bench.dispatch('mv old new; sed -i s/^9$/theirs/ new')
  await bench.user('sed -i s/^9$/mine/ old')
  const read = (path: string) => readFile(join(bench.root, path), 'utf8').catch(() => null)
  const found = await bench.changesets.conflicts(id)
  expect(found.conflicts).toMatchObject([
    {
      path: 'new',
      why: 'you changed the same lines meanwhile (as old, which the agent renamed)',
      choices: ['mine', 'theirs', 'both', 'edit'],
    },
  ])
  const { both } = await bench.changesets.conflictTexts(id, { path: 'old' })
  expect(both.toString()).toMatch(/<<<<<<< yours\nmine\n[^]*theirs\n>>>>>>>/)
  const wanted = { mine: null, theirs: /8\ntheirs\n10/, both: /mine2\ntheirs\n/, edit: /^edited$/ }
  for (const [time, choice] of (['mine', 'theirs', 'both', 'edit'] as const).entries()) {
    // An answer holds for what it was given for: something else is there now.
    await bench.user(`sed -i s/^mine.*/mine${time}/ old`)
    const before = await bench.snapshot()
    const content = { content_b64: Buffer.from('edited').toString('base64') }
    await bench.changesets.resolve(id, { path: 'new', choice, ...content }, 'test')
    const { state, skipped } = await bench.changesets.apply(id, all, 'test')
    expect([choice, state, skipped.length]).toEqual([choice, 'applied', choice === 'mine' ? 1 : 0])
    if (choice === 'mine') expect(await bench.snapshot()).toBe(before)
    else expect([await read('old'), await read('new')]).toEqual([null, expect.stringMatching(wanted[choice])])
    const undone = await bench.changesets.undo(id, 'test')
    expect(undone.applied.map(({ path }) => path)).toEqual(choice === 'mine' ? [] : ['new'])
    expect(await bench.snapshot()).toBe(before)
  }
})

test('a commit of a renamed file holds what its branch had made of it under the old name', async () => {
  await using bench = await Bench.make()
  await bench.user(
    'git init -q -b main .; git config user.name u; git config user.email u@u; seq 20 > old; git add .; git commit -qm 1',
  )
  const { id } = await bench.dispatch('mv old new; sed -i s/^3$/three/ new')
  await bench.user('sed -i s/^17$/mine/ old; git commit -qam 2')
  await bench.changesets.apply(id, { ...all, commit: { branch: 'main', own: false, hooks: false } }, 'test')
  const git = async (...args: string[]) => (await run('git', ['-C', bench.root, ...args])).stdout.toString()
  expect(await git('ls-tree', '--name-only', 'main')).toBe('new\n')
  expect(await git('show', 'main:new')).toBe(await readFile(join(bench.root, 'new'), 'utf8'))
  expect(await git('status', '--porcelain')).toBe('')
})

test('what the user wrote in a file that the agent deleted goes into no other one that only looks like it', async () => {
  await using bench = await Bench.make()
  const lines = (name: string) => `for i in $(seq 20); do echo ${name} $i; done`
  await bench.user(
    `mkdir copied near part; seq 20 > deleted; seq 20 > copied/f; (${lines('near')}) > near/gone; (${lines('near')}; echo more) > near/stays
     (seq 100 112; ${lines('part')}) > part/gone`,
  )
  const { id } = await bench.dispatch(
    `rm deleted; cp copied/f copied/g; rm near/gone; cp near/stays near/new; sed -i s/7/seven/ near/new
     rm part/gone; (seq 200 210; ${lines('part')}) > part/new`,
  )
  await bench.user('sed -i s/17/mine/ deleted near/gone part/gone')
  const before = await bench.snapshot()
  const { conflicts, merged } = await bench.changesets.conflicts(id)
  const why = 'you changed it meanwhile, the agent deleted it'
  expect(merged).toEqual([])
  expect(conflicts.toSorted((a, b) => a.path.localeCompare(b.path))).toMatchObject(
    ['deleted', 'near/gone', 'part/gone'].map((path) => ({ path, why, choices: ['mine', 'theirs'] })),
  )
  const choose = async (choice: 'mine' | 'theirs') => {
    for (const { path } of conflicts) await bench.changesets.resolve(id, { path, choice }, 'test')
    return bench.changesets.apply(id, all, 'test')
  }
  const read = (path: string) => readFile(join(bench.root, path), 'utf8').catch(() => null)
  const kept = await choose('mine')
  expect(kept.skipped.map(({ why }) => why)).toEqual(Array.from(conflicts, () => 'you kept your own'))
  expect(await read('deleted')).toContain('mine\n')
  for (const path of ['copied/g', 'near/new', 'part/new']) {
    expect(await read(path)).not.toBeNull()
    expect(await read(path)).not.toContain('mine')
  }
  await bench.changesets.undo(id, 'test')
  expect(await bench.snapshot()).toBe(before)
})
