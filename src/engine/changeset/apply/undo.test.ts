import { chownSync, renameSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { DispatchId } from '../../../shared/ids.ts'
import { Bench } from '../testing.ts'

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

async function approve(bench: Bench, id: DispatchId, path: string, hunk?: number): Promise<void> {
  const { files, revision } = await bench.changesets.get(id)
  const name = hunk === undefined ? undefined : files.find((file) => file.path === path)?.hunks[hunk]?.id
  await bench.changesets.decide(id, { path, hunk: name, verdict: 'approve', revision }, 'test')
}
const approved = { all: false, include_ignored: false }

test('an undo takes back all that has landed, be it in several applies, of one file or in several roots', async () => {
  await using bench = await Bench.make(['project', 'second'])
  await bench.user('seq 60 > f; echo a > a; echo g > gone; chmod 640 a; echo s > ../second/s')
  const before = [await bench.snapshot(), await bench.snapshot(bench.roots[1])]
  const { id } = await bench.dispatch(
    `sed -i 's/^5$/five/;s/^50$/fifty/' f; echo b > a; chmod 755 a; rm gone; mkdir -p n .vscode; echo n > n/n; echo 1 > .vscode/t
     echo S > ../second/s; echo t > ../second/t`,
  )
  const inReview = await bench.manifest(id)
  await approve(bench, id, 'f', 0)
  await approve(bench, id, 's')
  await bench.changesets.apply(id, approved, 'test')
  await bench.changesets.apply(id, all, 'test')
  await approve(bench, id, '.vscode/t')
  expect(await bench.changesets.apply(id, approved, 'test')).toMatchObject({ state: 'applied' })
  const { applied, state } = await bench.changesets.undo(id, 'test')
  expect([await bench.snapshot(), await bench.snapshot(bench.roots[1])]).toEqual(before)
  expect(state).toBe('review')
  expect(applied.map(({ path }) => path).toSorted()).toEqual(['.vscode/t', 'a', 'f', 'gone', 'n/n', 's', 't'])
  // All of it waits for review again, as if nothing had landed.
  expect(await bench.manifest(id)).toEqual(inReview)
  await expect(bench.changesets.undo(id, 'test')).rejects.toMatchObject({ code: 'changeset.nothing_to_undo' })
})

test('a renamed file of which a part had landed under its old name is taken back as one file', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 60 > old')
  const { id } = await bench.dispatch(`sed -i 's/^5$/five/;s/^50$/fifty/' old; mv old new`)
  await approve(bench, id, 'new', 0)
  await bench.changesets.apply(id, approved, 'test')
  await bench.changesets.apply(id, all, 'test')
  const { applied } = await bench.changesets.undo(id, 'test')
  expect(applied.map(({ path }) => path)).toEqual(['new'])
})

test('an undo does not tell of a renamed file that was not touched, since the user had chosen his own', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 60 > old; echo a > a')
  const { id } = await bench.dispatch('mv old new; echo b > a')
  await bench.user('rm old')
  await bench.changesets.resolve(id, { path: 'new', choice: 'mine' }, 'test')
  const { applied } = await bench.changesets.apply(id, all, 'test')
  expect(applied.map(({ path }) => path)).toEqual(['a'])
  expect((await bench.changesets.undo(id, 'test')).applied).toEqual(applied)
})

test('an undo of a part that landed in two applies takes both back, and --last only the second', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 60 > f; echo a > a')
  const before = await bench.snapshot()
  const { id } = await bench.dispatch(`sed -i 's/^5$/five/;s/^50$/fifty/' f; echo b > a`)
  await approve(bench, id, 'f', 0)
  await bench.changesets.apply(id, approved, 'test')
  const first = await bench.snapshot()
  const second = async () => {
    await approve(bench, id, 'f')
    expect(await bench.changesets.apply(id, approved, 'test')).toMatchObject({ state: 'review' })
  }
  await second()
  const { notes } = await bench.changesets.undo(id, 'test', { last: true })
  expect(notes).toEqual([expect.stringContaining('stays')])
  expect(await bench.snapshot()).toBe(first)
  await second()
  await bench.changesets.undo(id, 'test')
  expect(await bench.snapshot()).toBe(before)
})

const two = `sed -i 's/^5$/five/;s/^50$/fifty/'`
test.each([
  ['a new mode', 'seq 60 > f', `${two} f; chmod 755 f`, 'f', null],
  ['a new mode and set-id bits before', 'seq 60 > f; chmod 4755 f', `${two} f; chmod 700 f`, 'f', null],
  ['a new name and mode', 'seq 60 > f', `mv f g; ${two} g; chmod 755 g`, 'g', null],
  ['a new name from the next turn', 'seq 60 > f', `${two} f`, 'f', 'mv f g; chmod 755 g'],
])(
  'a file with %s lands in two applies as in one, and both or the last are taken back',
  async (_, user, agent, path, turn) => {
    await using bench = await Bench.make()
    await bench.user(user)
    const before = await bench.snapshot()
    const { id, workspace } = await bench.dispatch(agent)
    await approve(bench, id, path, 0)
    await bench.changesets.apply(id, approved, 'test')
    const first = await bench.snapshot()
    if (turn !== null) {
      await bench.changesets.reject(id, 'go on', 'test')
      // Our own work on the folder must be older than the turn by more than its times are inexact.
      const { id: next } = await bench.workspace()
      await bench.changesets.reopen(id, next, 'test')
      await bench.agent(workspace, turn)
      await bench.changesets.capture(workspace, { final: true })
    }
    expect(await bench.changesets.apply(id, all, 'test')).toMatchObject({ state: 'applied', skipped: [] })
    const landed = await bench.snapshot()
    await bench.changesets.undo(id, 'test', { last: true })
    expect(await bench.snapshot()).toBe(first)
    await bench.changesets.apply(id, all, 'test')
    await bench.changesets.undo(id, 'test')
    expect(await bench.snapshot()).toBe(before)
    await bench.changesets.apply(id, all, 'test')
    expect(await bench.snapshot()).toBe(landed)
  },
)

test('an undo refuses as a whole where a file of the first of two applies has moved on', async () => {
  await using bench = await Bench.make()
  await bench.user('echo a > a; echo b > b')
  const { id } = await bench.dispatch('echo A > a; echo B > b')
  await approve(bench, id, 'a')
  await bench.changesets.apply(id, approved, 'test')
  await bench.changesets.apply(id, all, 'test')
  await bench.user('echo mine > a')
  const landed = await bench.snapshot()
  await expect(bench.changesets.undo(id, 'test')).rejects.toMatchObject({
    code: 'changeset.conflict',
    details: { conflicts: [{ path: 'a' }] },
  })
  expect(await bench.snapshot()).toBe(landed)
})

test('an undo of what another changeset has changed since names that one, and goes once it is undone', async () => {
  await using bench = await Bench.make(['project', 'project/sub'])
  await bench.user('seq 30 > sub/f; echo g > g; chmod 644 sub/f')
  const before = await bench.snapshot()
  const [one, two, three] = [
    await bench.dispatch('sed -i s/^2$/one/ sub/f; echo one > g', bench.workspace([bench.root])),
    await bench.dispatch('sed -i s/^20$/two/ f', bench.workspace([bench.roots[1] ?? ''])),
    await bench.dispatch('chmod 755 sub/f', bench.workspace([bench.root])),
  ]
  for (const { id } of [one, two, three]) await bench.changesets.apply(id, all, 'test')
  const refusedBy = async ({ id }: { id: DispatchId }) =>
    await expect(bench.changesets.undo(one.id, 'test')).rejects.toMatchObject({
      code: 'changeset.conflict',
      message: `cannot undo: sub/f: changeset ${id} changed it after the apply`,
      hint: `Nothing was changed. Undo that one first (\`orangery changeset undo ${id}\`), or keep the apply.`,
    })
  await refusedBy(three)
  await bench.changesets.undo(three.id, 'test')
  await refusedBy(two)
  await bench.user('cp sub/f kept; echo mine >> sub/f')
  await expect(bench.changesets.undo(one.id, 'test')).rejects.toMatchObject({
    message: 'cannot undo: sub/f: you changed it after the apply',
  })
  await bench.user('cat kept > sub/f; rm kept')
  await bench.changesets.undo(two.id, 'test')
  await bench.changesets.undo(one.id, 'test')
  expect(await bench.snapshot()).toBe(before)
})

test('an undo never takes away what the user wrote between two applies', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 60 > f')
  const { id } = await bench.dispatch(`sed -i 's/^5$/five/;s/^50$/fifty/' f`)
  await approve(bench, id, 'f', 0)
  await bench.changesets.apply(id, approved, 'test')
  await bench.user('sed -i s/^30$/mine/ f')
  const between = await bench.snapshot()
  await bench.changesets.apply(id, all, 'test')
  await expect(bench.changesets.undo(id, 'test')).rejects.toMatchObject({ code: 'changeset.conflict' })
  await bench.changesets.undo(id, 'test', { last: true })
  expect(await bench.snapshot()).toBe(between)
})

test('what one turn of an agent brought and the next took away is no matter of an undo of both', async () => {
  await using bench = await Bench.make()
  await bench.user('echo a > a')
  const { id, workspace } = await bench.dispatch('echo A > a; echo n > n; mkdir d; echo d > d/d')
  await bench.changesets.apply(id, all, 'test')
  await bench.agent(workspace, 'rm -r n d; echo AA > a')
  await bench.changesets.capture(workspace, { final: true })
  await bench.changesets.apply(id, all, 'test')
  await bench.user('echo mine > n')
  await bench.changesets.undo(id, 'test')
  await bench.user('test "$(cat a n)" = "$(printf "a\\nmine")"; test ! -e d')
  expect((await bench.changesets.get(id)).files).toMatchObject([{ path: 'a' }])
})

test('an undo is not kept back by links of the user that led out before the apply as they do after the undo', async () => {
  await using bench = await Bench.make()
  await bench.user('ln -s /outside data; ln -s data/2024 latest; ln -s loop loop; ln -s loop/x on')
  const before = await bench.snapshot()
  const { id } = await bench.dispatch('rm data loop; mkdir data; echo x > data/x')
  await bench.changesets.apply(id, all, 'test')
  await bench.changesets.undo(id, 'test')
  expect(await bench.snapshot()).toBe(before)
})

test('an undo is kept back by a link that was there before and would lead out by one that has come since', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir sub; ln -s /outside sub/data; ln -s way/data/secret link')
  const first = await bench.dispatch('rm sub/data')
  await bench.changesets.apply(first.id, all, 'test')
  const second = await bench.dispatch('ln -s sub way')
  await bench.changesets.apply(second.id, all, 'test')
  await expect(bench.changesets.undo(first.id, 'test')).rejects.toMatchObject({
    code: 'changeset.conflict',
    details: { conflicts: [{ path: 'link' }] },
  })
})

test('a changeset that landed in several applies is shown, exported and counted as a whole', async () => {
  for (const end of ['approve', 'reject'] as const) {
    await using bench = await Bench.make()
    await bench.user('seq 60 > f; echo a > a')
    const { id } = await bench.dispatch(
      `sed -i 's/^5$/five/;s/^50$/fifty/' f; echo b > a; mkdir .vscode; echo 1 > .vscode/t`,
    )
    const inReview = await bench.manifest(id)
    const patch = await bench.exported(id, 'json')
    await approve(bench, id, 'f', 0)
    await bench.changesets.apply(id, approved, 'test')
    await bench.changesets.apply(id, all, 'test')
    await bench.changesets.decide(id, { path: '.vscode/t', verdict: end }, 'test')
    expect(await bench.changesets.apply(id, approved, 'test')).toMatchObject({ state: 'applied' })
    const { diff, changeset } = JSON.parse(String(await bench.exported(id, 'json')))
    expect(diff).toBe(JSON.parse(String(patch)).diff)
    expect(changeset.files).toMatchObject([
      { path: '.vscode/t', decision: end },
      { path: 'a', decision: 'approve' },
      { path: 'f', decision: 'approve', hunks: [{ decision: 'approve' }, { decision: 'approve' }] },
    ])
    expect(await bench.changesets.list()).toMatchObject([{ files: 3, insertions: 4, deletions: 3 }])
    await bench.changesets.undo(id, 'test')
    expect(await bench.manifest(id)).toEqual(inReview)
    expect(await bench.changesets.list()).toMatchObject([{ files: 3, insertions: 4, deletions: 3 }])
  }
})

test('a root that was moved away is told as such, by conflicts, apply and undo', async () => {
  await using bench = await Bench.make()
  await bench.user('echo a > a')
  const edited = await bench.dispatch('echo b > a')
  const added = await bench.dispatch('echo n > n')
  const landed = await bench.dispatch('echo l > l')
  await bench.changesets.apply(landed.id, all, 'test')
  const refused = {
    code: 'changeset.root_gone',
    kind: 'not_found',
    message: expect.stringContaining(bench.root),
  }
  const away = join(bench.folder, 'elsewhere')
  for (const move of [() => renameSync(bench.root, away), () => symlinkSync(away, bench.root)]) {
    move()
    for (const { id } of [edited, added]) {
      await expect(bench.changesets.conflicts(id)).rejects.toMatchObject(refused)
      await expect(bench.changesets.apply(id, all, 'test')).rejects.toMatchObject(refused)
    }
    await expect(bench.changesets.undo(landed.id, 'test')).rejects.toMatchObject(refused)
  }
})
