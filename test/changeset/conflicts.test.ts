import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Bench } from '../../src/engine/changeset/testing.ts'

const all = { all: true, include_ignored: true }

test('conflicts are settled by mine, theirs, both or an edited text, and only for the sides they were seen with', async () => {
  await using bench = await Bench.make()
  await bench.user('for f in mine theirs both edit merge; do seq 20 > $f; done')
  const { id } = await bench.dispatch(
    `for f in mine theirs both edit; do sed -i s/^3$/agent/ $f; done; sed -i s/^3$/agent/ merge`,
  )
  await bench.user(
    `for f in mine theirs both edit; do sed -i s/^3$/user/ $f; done; sed -i s/^18$/user/ merge`,
  )
  const found = await bench.changesets.conflicts(id)
  expect(found.conflicts.map((each) => each.path)).toEqual(['both', 'edit', 'mine', 'theirs'])
  expect(found.merged).toEqual(['merge'])
  for (const choice of ['mine', 'theirs', 'both'] as const)
    await bench.changesets.resolve(id, { path: choice, choice }, 'anna')
  const { mine, theirs, both } = await bench.changesets.conflictTexts(id, { path: 'edit' })
  expect(mine.toString()).toContain('user')
  expect(theirs.toString()).toContain('agent')
  expect(both.toString()).toContain("<<<<<<< yours\nuser\n=======\nagent\n>>>>>>> the agent's\n")
  await expect(bench.changesets.conflictTexts(id, { path: 'merge' })).rejects.toThrow('no conflict to edit')
  const content_b64 = Buffer.from('edited\n').toString('base64')
  const left = await bench.changesets.resolve(id, { path: 'edit', choice: 'edit', content_b64 }, 'anna')
  expect(left.conflicts).toEqual([])
  await bench.user('echo again >> theirs')
  expect((await bench.changesets.conflicts(id)).conflicts.map((each) => each.path)).toEqual(['theirs'])
  await bench.changesets.resolve(id, { path: 'theirs', choice: 'theirs' }, 'anna')
  const before = await bench.snapshot()
  const landed = await bench.changesets.apply(id, all, 'anna')
  expect(landed.merged).toContain('merge')
  expect(landed.applied.map(({ path }) => path)).toEqual(['both', 'edit', 'merge', 'theirs'])
  expect(landed.skipped).toEqual([{ path: 'mine', why: 'you kept your own' }])
  const read = (name: string) => readFile(join(bench.root, name), 'utf8')
  expect(await read('mine')).toContain('user')
  expect(await read('theirs')).toMatch(/agent[^]*20\n$/)
  expect(await read('both')).toMatch(/user\nagent/)
  expect(await read('edit')).toBe('edited\n')
  expect(await read('merge')).toMatch(/agent[^]*user/)
  await bench.changesets.undo(id, 'anna')
  expect(await bench.snapshot()).toBe(before)
})

test('files that differ only in bytes that are not UTF-8 are decided, read and settled one by one', async () => {
  await using bench = await Bench.make()
  const names = `a="$(printf 'n\\376')"; b="$(printf 'n\\377')"; c="$(printf 'n\\375')";`
  await bench.user(`${names} seq 9 > "$a"; seq 30 60 > "$b"`)
  const { id } = await bench.dispatch(
    `${names} sed -i s/^2$/first/ "$a"; sed -i s/^42$/second/ "$b"; mv "$b" "$c"`,
  )
  await bench.user(`${names} sed -i s/^2$/mine/ "$a"; sed -i s/^42$/mine/ "$b"`)
  const bytes = (name: string) => Buffer.from(name, 'latin1').toString('base64')
  const [a, b, c] = [bytes('n\xfe'), bytes('n\xff'), bytes('n\xfd')]
  const { changesets } = bench
  const changed = (await changesets.get(id)).files
  expect(changed.map((file) => [file.path_b64, file.from_path_b64])).toEqual([
    [c, b],
    [a, undefined],
  ])
  const decided = await changesets.decide(id, { path_b64: a, verdict: 'approve' }, 'anna')
  expect(decided.files.map((file) => file.decision)).toEqual([null, 'approve'])
  expect((await changesets.diff(id, { path_b64: a })).text).toContain('+first')
  const { conflicts } = await changesets.conflicts(id)
  expect(conflicts.map((each) => each.path_b64)).toEqual([c, a])
  // By what they look like they cannot be told apart.
  await expect(changesets.resolve(id, { path: 'n\ufffd', choice: 'mine' }, 'anna')).rejects.toMatchObject({
    code: 'changeset.ambiguous_path',
    hint: expect.stringContaining(c),
  })
  // A renamed file is also known by its old name.
  const left = await changesets.resolve(id, { path_b64: b, choice: 'theirs' }, 'anna')
  expect(left.conflicts.map((each) => each.path_b64)).toEqual([a])
  expect((await changesets.conflictTexts(id, { path_b64: a })).theirs.toString()).toContain('first')
  const twins = await bench.dispatch(`${names} rm "$a" "$b"`)
  await expect(
    changesets.decide(twins.id, { path: 'n\ufffd', verdict: 'approve' }, 'anna'),
  ).rejects.toMatchObject({ code: 'changeset.ambiguous_path', hint: expect.stringContaining(`${a} or ${b}`) })
})

test('a conflict says whether it is about lines, a mode or what is no text, and offers only what can be done', async () => {
  await using bench = await Bench.make()
  await bench.user(`seq 9 > lines; seq 9 > mode; printf 'a\\0b' > binary; chmod 644 *`)
  const { id } = await bench.dispatch(
    `sed -i s/^3$/agent/ lines; chmod 755 mode; echo agent >> mode; printf 'a\\0agent' > binary`,
  )
  await bench.user(
    `sed -i s/^3$/user/ lines; chmod 600 mode; sed -i s/^1$/user/ mode; printf 'a\\0user' > binary`,
  )
  const { conflicts } = await bench.changesets.conflicts(id)
  const four = ['mine', 'theirs', 'both', 'edit']
  expect(conflicts.map(({ path, why, choices }) => [path, why, choices])).toEqual([
    ['binary', 'you changed it meanwhile, and it is no text', ['mine', 'theirs']],
    ['lines', 'you changed the same lines meanwhile', four],
    ['mode', 'you changed its mode meanwhile', four],
  ])
})

test('a choice can be changed and taken back until it has landed, also after an undo, and those in force are told', async () => {
  await using bench = await Bench.make()
  await bench.user('git init -q .; seq 9 > f')
  const { id } = await bench.dispatch('sed -i s/^3$/agent/ f')
  await bench.user('sed -i s/^3$/user/ f')
  const { changesets } = bench
  const choose = (choice: 'mine' | 'theirs' | 'both' | null, by: string) =>
    changesets.resolve(id, { path: 'f', choice }, by)
  await expect(choose(null, 'anna')).rejects.toMatchObject({ kind: 'input' })
  expect(await choose('theirs', 'anna')).toMatchObject({
    conflicts: [],
    settled: [{ path: 'f', choice: 'theirs', by: 'anna', choices: ['mine', 'theirs', 'both', 'edit'] }],
    lands: [{ path: 'f' }],
  })
  expect(await choose('mine', 'berta')).toMatchObject({
    settled: [{ path: 'f', choice: 'mine', by: 'berta' }],
    lands: [],
  })
  expect((await changesets.conflictTexts(id, { path: 'f' })).mine.toString()).toContain('user')
  expect(await choose(null, 'anna')).toMatchObject({ conflicts: [{ path: 'f' }], settled: [] })
  await choose('theirs', 'anna')
  await changesets.apply(id, all, 'anna')
  await changesets.undo(id, 'anna')
  expect(await changesets.conflicts(id)).toMatchObject({ settled: [{ path: 'f', choice: 'theirs' }] })
  await choose('mine', 'anna')
  const commit = { branch: 'feature', own: false, hooks: false }
  const { notes } = await changesets.apply(id, { ...all, commit }, 'anna')
  expect(notes).toEqual(['no commit was made: nothing has landed'])
  await changesets.undo(id, 'anna')
  await choose('both', 'anna')
  await changesets.apply(id, all, 'anna')
  expect(await readFile(join(bench.root, 'f'), 'utf8')).toMatch(/user\nagent/)
})
