import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Verdict } from '../../../shared/changeset.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import { Bench } from '../testing.ts'

const approved = { all: false, include_ignored: false }
const blocks = (count: number) =>
  `for i in $(seq ${count}); do printf 'a\\nb\\nc\\nx=1\\nd\\ne\\nf\\n'; seq $((i*100)) $((i*100+20)); done > rep`

async function decideHunks(bench: Bench, id: DispatchId, verdicts: readonly (Verdict | null)[]) {
  const { hunks } = (await bench.changesets.get(id)).files.find(({ path }) => path === 'rep')!
  for (const [at, verdict] of verdicts.entries()) {
    if (verdict === null) continue
    const comment = verdict === 'reject' ? { comment: `not number ${at}` } : {}
    await bench.changesets.decide(id, { path: 'rep', hunk: hunks[at]!.id, verdict, ...comment }, 'me')
  }
}
const decided = async (bench: Bench, id: DispatchId) =>
  (await bench.changesets.get(id)).files.flatMap(({ hunks }) => hunks.map(({ decision }) => decision))
const settings = async (bench: Bench) =>
  (await readFile(join(bench.root, 'rep'), 'utf8')).match(/x=\d/g)?.join(' ')

test('of hunks that say the same the one that was approved lands, and none of the others gets its verdict', async () => {
  await using bench = await Bench.make()
  await bench.user(blocks(3))
  const { id } = await bench.dispatch('sed -i s/x=1/x=2/ rep')
  await decideHunks(bench, id, ['reject', 'approve', null])
  await bench.changesets.apply(id, approved, 'me')
  expect(await settings(bench)).toBe('x=1 x=2 x=1')
  expect(await decided(bench, id)).toEqual(['reject', null])
  const { files } = await bench.changesets.get(id)
  expect(files[0]!.comments).toMatchObject([
    { text: 'not number 0', hunk: files[0]!.hunks[0]!.id, outdated: false },
  ])
  await expect(bench.changesets.apply(id, approved, 'me')).rejects.toMatchObject({ kind: 'refused' })
  expect(await settings(bench)).toBe('x=1 x=2 x=1')
})

test('a verdict neither moves up to an equal hunk when the agent takes one back, nor along when it makes the change elsewhere', async () => {
  await using bench = await Bench.make()
  await bench.user(blocks(2))
  const { id, workspace } = await bench.dispatch('sed -i s/x=1/x=2/ rep')
  await decideHunks(bench, id, ['approve', 'reject'])
  await bench.agent(workspace, 'sed -i 4s/x=2/x=1/ rep')
  await bench.changesets.capture(workspace, { final: true })
  expect(await decided(bench, id)).toEqual(['reject'])
  expect((await bench.changesets.get(id)).files[0]!.comments).toMatchObject([{ outdated: false }])
  await bench.agent(workspace, 'sed -i "s/x=2/x=1/; 4s/x=1/x=2/" rep')
  await bench.changesets.capture(workspace, { final: true })
  expect(await decided(bench, id)).toEqual(['approve'])
  await bench.agent(workspace, 'sed -i "s/x=2/x=1/; 4!s/x=1/x=2/" rep')
  await bench.changesets.capture(workspace, { final: true })
  expect(await decided(bench, id)).toEqual(['reject'])
})

test('decisions of before places were kept hold where nothing else says the same, and for no equal hunk once one has landed', async () => {
  await using bench = await Bench.make()
  await bench.user(`${blocks(2)}; echo one > other`)
  const { id, workspace } = await bench.dispatch('sed -i s/x=1/x=2/ rep; echo two > other')
  await bench.changesets.decide(id, { path: 'other', verdict: 'reject' }, 'me')
  await decideHunks(bench, id, ['approve', null])
  // As they were written then: equal hunks by their order, and without a place.
  const records = bench.store.changesets
  const rows = records.decisions(id)
  records.move(id, {
    comments: [],
    decisions: rows.map((from) => {
      const [anchor = ''] = from.anchor.split(' ')
      return { from, to: { ...from, anchor, hunk: from.hunk?.slice(0, 16) ?? null } }
    }),
  })
  expect((await bench.changesets.get(id)).files.map((file) => file.hunks.map((h) => h.decision))).toEqual([
    ['reject'],
    ['approve', null],
  ])
  await bench.agent(workspace, 'chmod +x other; sed -i "4s/x=2/x=1/" rep')
  await bench.changesets.capture(workspace, { final: true })
  expect((await bench.changesets.get(id)).files.map((file) => file.hunks.map((h) => h.decision))).toEqual([
    ['reject'],
    [null],
  ])
})

test('what nobody wanted is not wanted under another name, be it a text, a binary, or renamed before', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 40 > old')
  const { id, workspace } = await bench.dispatch(
    'seq 9 > bad.txt; printf "a\\0b" > bad.bin; mv old new; sed -i s/^5$/five/ new; echo fine > fine',
  )
  const { changesets } = bench
  for (const path of ['bad.txt', 'bad.bin', 'new'])
    await changesets.decide(id, { path, verdict: 'reject', comment: `no ${path}` }, 'me')
  await changesets.decide(id, { path: 'fine', verdict: 'approve' }, 'me')
  await bench.agent(workspace, 'mv bad.txt worse.txt; mv bad.bin worse.bin; mv new newer; mv fine finer')
  await changesets.capture(workspace, { final: true })
  const { files } = await changesets.get(id)
  expect(files.map(({ path, decision, comments }) => [path, decision, comments?.map((c) => c.text)])).toEqual(
    [
      ['finer', null, []],
      ['newer', 'reject', ['no new']],
      ['worse.bin', 'reject', ['no bad.bin']],
      ['worse.txt', 'reject', ['no bad.txt']],
    ],
  )
  await changesets.apply(id, { all: true, include_ignored: false }, 'me')
  expect(await bench.snapshot()).toMatch(/^finer f [^]*\nold f [^\n]*\n[^w]*$/)
})

test.each([
  ['after it was renamed', ['mv n m', 'rm m', 'seq 9 > n'], 'n'],
  ['after it was renamed and rewritten', ['mv n m; echo 10 >> m', 'rm m', 'seq 9 > n'], 'n'],
  ['under another name', ['rm n', 'true', 'seq 9 > other'], 'other'],
  ['under its own', ['rm n', 'true', 'seq 9 > n'], 'n'],
])(
  'what was rejected is so, with what was said of it, when it is gone for a while and comes back %s',
  async (_, turns, path) => {
    for (const byHunk of [false, true]) {
      await using bench = await Bench.make()
      const { changesets } = bench
      const { id, workspace } = await bench.dispatch('seq 9 > n; echo fine > fine')
      const [, named] = (await changesets.get(id)).files
      const hunk = byHunk ? named!.hunks[0]!.id : undefined
      await changesets.decide(id, { path: 'n', hunk, verdict: 'reject', comment: 'never' }, 'me')
      for (const turn of turns) {
        await bench.agent(workspace, turn)
        await changesets.capture(workspace, { final: true })
      }
      const [, file] = (await changesets.get(id)).files
      expect(file).toMatchObject({ path, decision: 'reject', hunks: [{ decision: 'reject' }] })
      expect(file!.comments).toMatchObject([{ text: 'never', outdated: false }])
      const { applied, skipped } = await changesets.apply(id, { ...approved, all: true }, 'me')
      expect([applied.map((each) => each.path), skipped]).toEqual([['fine'], [{ path, why: 'rejected' }]])
      // A person may think again.
      await changesets.decide(id, { path, verdict: 'approve' }, 'me')
      await bench.agent(workspace, 'echo x > x')
      await changesets.capture(workspace, { final: true })
      expect((await changesets.get(id)).files).toMatchObject([{ path, decision: 'approve' }, { path: 'x' }])
    }
  },
)

const swap = 'cd d; mv a t; mv b a; mv t b'
test.each([
  ['new files', 'mkdir d', 'echo'],
  ['edited files', 'mkdir d; seq 9 > d/a; seq 20 30 > d/b', 'echo'],
  ['binaries', 'mkdir d', 'printf "%s\\0"'],
])(
  'what was rejected of two %s is so when they swap their names, and when they swap back after the other has landed',
  async (_, user, write) => {
    for (const byHunk of [false, true]) {
      await using bench = await Bench.make()
      const { changesets } = bench
      await bench.user(user)
      const { id, workspace } = await bench.dispatch(`${write} evil > d/a; ${write} good > d/b`)
      const hunk = byHunk ? (await changesets.get(id)).files[0]!.hunks[0]?.id : undefined
      await changesets.decide(id, { path: 'd/a', hunk, verdict: 'reject' }, 'me')
      const decisions = async () =>
        (await changesets.get(id)).files.map(({ path, decision }) => [path, decision])
      const turn = async (script: string) => {
        await bench.agent(workspace, script)
        await changesets.capture(workspace, { final: true })
      }
      await turn(swap)
      expect(await decisions()).toEqual([
        ['d/a', null],
        ['d/b', 'reject'],
      ])
      await changesets.decide(id, { path: 'd/a', verdict: 'approve' }, 'me')
      await changesets.apply(id, approved, 'me')
      await turn(swap)
      expect(await decisions()).toEqual([
        ['d/a', 'reject'],
        ['d/b', null],
      ])
      await changesets.apply(id, { ...approved, all: true }, 'me')
      expect(await readFile(join(bench.root, 'd/a'), 'utf8')).toMatch(/^good/)
    }
  },
)

test('what was rejected is so in a folder of its name and as a copy, and a file that was as it before is not spoken for', async () => {
  await using bench = await Bench.make()
  const { changesets } = bench
  await bench.user('seq 9 > old')
  const { id, workspace } = await bench.dispatch(
    'echo one > n; echo two > old; echo three > c; echo three > same; echo fine > fine',
  )
  for (const path of ['n', 'old', 'c'])
    await changesets.decide(id, { path, verdict: 'reject', comment: 'never' }, 'me')
  await bench.agent(
    workspace,
    'rm n old; mkdir n old; echo one > n/n; echo two > old/old; cp c copy; echo four > c',
  )
  await changesets.capture(workspace, { final: true })
  const { files } = await changesets.get(id)
  expect(files.map(({ path, decision, comments }) => [path, decision, comments?.length])).toEqual([
    ['c', null, 1],
    ['copy', 'reject', 0],
    ['fine', null, 0],
    ['n/n', 'reject', 1],
    ['old', null, 1],
    ['old/old', 'reject', 0],
    ['same', null, 0],
  ])
  const { applied } = await changesets.apply(id, { ...approved, all: true }, 'me')
  expect(applied.map(({ path }) => path)).toEqual(['c', 'fine', 'same'])
  expect(await bench.snapshot()).toMatch(/^old f /m)
  // A person may take it back.
  await changesets.decide(id, { path: 'copy', verdict: null }, 'me')
  await bench.agent(workspace, 'echo x > x')
  await changesets.capture(workspace, { final: true })
  expect((await changesets.get(id)).files[0]).toMatchObject({ path: 'copy', decision: null })
})

test.each([
  ['text', 'seq 20', 'seq 200 230', ''],
  ['text, hunk by hunk', 'seq 20', 'seq 200 230', 'by hunk'],
  ['binary', 'printf "a\\0b"', 'printf "c\\0d%s" $(seq 90)', ''],
])(
  'what was rejected of a file does not land in part when the agent moves the rewritten %s elsewhere',
  async (_, base, rewritten, byHunk) => {
    await using bench = await Bench.make()
    const { changesets } = bench
    await bench.user(`${base} > a; seq 60 > edited; seq 300 350 > over; seq 400 450 > from`)
    const before = await bench.snapshot()
    const { id, workspace } = await bench.dispatch(
      `${rewritten} > a; sed -i s/^5$/five/ edited; echo more >> over; ${rewritten} > from; seq 9 > n`,
    )
    const reject = async (path: string) => {
      const hunks = (await changesets.get(id)).files.find((file) => file.path === path)?.hunks ?? []
      for (const hunk of byHunk === '' ? [undefined] : hunks.map((each) => each.id))
        await changesets.decide(id, { path, hunk, verdict: 'reject' }, 'me')
    }
    for (const path of ['a', 'edited', 'from', 'n']) await reject(path)
    await changesets.decide(id, { path: 'over', verdict: 'approve' }, 'me')
    await bench.agent(workspace, 'mv a b; rm edited n; mv from over; seq 500 600 > fresh')
    await changesets.capture(workspace, { final: true })
    expect(
      (await changesets.get(id)).files.map(({ path, change, decision }) => [path, change, decision]),
    ).toEqual([
      ['a', 'deleted', null],
      ['b', 'added', 'reject'],
      ['edited', 'deleted', null],
      ['fresh', 'added', null],
      ['from', 'deleted', null],
      ['over', 'modified', 'reject'],
    ])
    const { applied, skipped, state } = await changesets.apply(
      id,
      { all: true, include_ignored: false },
      'me',
    )
    const again = 'you rejected a change of it, and the agent has deleted it since: decide again'
    expect([state, applied.map(({ path }) => path)]).toEqual(['review', ['fresh']])
    expect(skipped.map(({ path, why }) => [path, why])).toEqual([
      ['a', again],
      ['b', 'rejected'],
      ['edited', again],
      ['from', again],
      ['over', 'rejected'],
    ])
    // Whoever means the deletion says so by its path.
    await changesets.decide(id, { path: 'a', verdict: 'approve' }, 'me')
    await changesets.apply(id, approved, 'me')
    expect(await bench.snapshot()).not.toMatch(/^a f/m)
    await changesets.undo(id, 'me')
    expect(await bench.snapshot()).toBe(before)
  },
)

test('a file approved as a whole that gains a hunk is reopened, and the inter-diff shows what it gained', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 60 > f')
  const { id, workspace } = await bench.dispatch('sed -i s/^5$/five/ f')
  await bench.changesets.decide(id, { path: 'f', verdict: 'approve' }, 'me')
  await bench.agent(workspace, 'sed -i s/^50$/fifty/ f')
  await bench.changesets.capture(workspace, { final: true })
  const [file] = (await bench.changesets.get(id)).files
  expect(file).toMatchObject({ reopened: true, hunks: [{ decision: 'approve' }, { decision: null }] })
  const { text } = await bench.changesets.diff(id, { inter: true }, 'me')
  expect(text).toContain('+fifty')
  expect(text).not.toContain('+five')
  // What lands is no change of the agent's.
  await bench.changesets.apply(id, approved, 'me')
  await bench.changesets.decide(id, { path: 'f', verdict: 'approve' }, 'me')
  expect((await bench.changesets.get(id)).files[0]!.reopened).toBe(false)
})

test('who escalated a changeset and who took it back is on record, and is no turn', async () => {
  await using bench = await Bench.make()
  const { id } = await bench.dispatch('echo a > a')
  await bench.changesets.escalate(id, 'touches the licence', 'anna')
  const { transitions, turn, escalated } = await bench.changesets.escalate(id, null, 'bert')
  expect(transitions.slice(-2)).toMatchObject([
    { from: 'review', to: 'review', by: 'anna', why: 'escalated: touches the licence' },
    { from: 'review', to: 'review', by: 'bert', why: 'not escalated any more: touches the licence' },
  ])
  expect([turn, escalated]).toEqual([1, null])
})

test('a file that git ignores is not taken away by "approve all" or by approving its folder when the agent renames it', async () => {
  await using bench = await Bench.make()
  await bench.user('git init -q .; echo .env > .gitignore; seq 20 > .env; echo a > a')
  const { id } = await bench.dispatch('mv .env settings; echo b > a')
  const { files } = await bench.changesets.get(id)
  expect(files).toMatchObject([
    { path: 'a', ignored: false },
    { path: 'settings', from_path: '.env', ignored: true },
  ])
  expect((await bench.changesets.diff(id, {})).text).not.toContain('.env')
  await bench.changesets.decide(id, { path: '.', verdict: 'approve' }, 'me')
  const { applied, skipped } = await bench.changesets.apply(id, { ...approved, all: true }, 'me')
  expect(applied.map(({ path }) => path)).toEqual(['a'])
  expect(skipped).toMatchObject([{ path: 'settings', why: expect.stringContaining('ignored by git') }])
  const read = (path: string) => readFile(join(bench.root, path), 'utf8').catch(() => null)
  expect([await read('settings'), await read('.env')]).toEqual([null, expect.stringContaining('20\n')])
  await bench.changesets.apply(id, { all: true, include_ignored: true }, 'me')
  expect([await read('.env'), await read('settings')]).toEqual([null, expect.stringContaining('20\n')])
})

test('a diff has nothing that never lands, since git apply would make it, but shows it to who names it', async () => {
  await using bench = await Bench.make()
  const { id } = await bench.dispatch('ln -s /etc/passwd leaves; echo a > a')
  const { files } = await bench.changesets.get(id)
  expect(files.map(({ path, refused }) => [path, refused === null])).toEqual([
    ['a', true],
    ['leaves', false],
  ])
  for (const scope of ['all', 'turn'] as const) {
    const { text } = await bench.changesets.diff(id, { scope })
    expect([text.includes('b/a'), text.includes('leaves')]).toEqual([true, false])
  }
  expect((await bench.changesets.diff(id, { path: 'leaves' })).text).toContain('+/etc/passwd')
})

test('a path may be told in full, and one that did not change is told where paths begin', async () => {
  await using bench = await Bench.make(['project', 'project2'])
  await bench.user('echo a > a; mkdir d; echo d > d/d; echo a > ../project2/a')
  const { id } = await bench.dispatch('echo b > a; echo b > d/d; echo b > ../project2/a')
  const { changesets, root, roots } = bench
  const approve = async (path: string, of?: string) => {
    const { files } = await changesets.decide(id, { path, root: of, verdict: 'approve' }, 'test')
    const found = files.filter(({ decision }) => decision !== null).map((file) => join(file.root, file.path))
    await changesets.decide(id, { path: '.', verdict: null }, 'test')
    return found
  }
  expect(await approve(join(root, 'a'))).toEqual([join(root, 'a')])
  expect(await approve(join(root, 'd/'))).toEqual([join(root, 'd/d')])
  expect(await approve(root)).toEqual([join(root, 'a'), join(root, 'd/d')])
  expect(await approve(`${roots[1]}/a`, 'project2')).toEqual([`${roots[1]}/a`])
  expect((await changesets.diff(id, { path: join(root, 'a') })).text).toContain('a/project/a')
  const hint = `Paths begin at the root: ${roots.join(' or ')}. \`orangery changeset show\` lists what changed.`
  const nowhere = { code: 'changeset.no_such_path', kind: 'not_found', hint }
  await expect(approve(join(root, 'x'))).rejects.toMatchObject(nowhere)
  await expect(approve(`${root}/a`, 'project2')).rejects.toMatchObject(nowhere)
  await expect(changesets.diff(id, { path: '/a' })).rejects.toMatchObject(nowhere)
})

test('a hunk is known by the beginning of its name, unless another has it, or its agent may have made another', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 40 > f; seq 400 > g')
  const { id, workspace } = await bench.dispatch(
    'sed -i "s/^3$/three/; s/^30$/thirty/" f; sed -i "s/.0$/&o/" g',
  )
  const { changesets } = bench
  const named = (await changesets.get(id)).files[0]!.hunks.map((hunk) => hunk.id)
  const decide = (hunk: string) =>
    changesets.decide(id, { path: 'f', hunk, verdict: 'approve', comment: 'yes' }, 'me')
  const none = { code: 'changeset.no_such_hunk', kind: 'not_found' }
  for (const hunk of ['', 'x', `${named[0]}0`]) await expect(decide(hunk)).rejects.toMatchObject(none)
  // Of more than sixteen hunks two begin with the same digit.
  const digits = (await changesets.get(id)).files[1]!.hunks.map((hunk) => hunk.id.charAt(0))
  const shared = digits.find((digit, at) => digits.indexOf(digit) !== at)
  await expect(
    changesets.decide(id, { path: 'g', hunk: shared, verdict: 'approve' }, 'me'),
  ).rejects.toMatchObject(none)
  const { files } = await decide(named[0]!.slice(0, 8))
  expect(files[0]!.hunks.map(({ decision }) => decision)).toEqual(['approve', null])
  expect(files[0]!.comments).toMatchObject([{ hunk: named[0], outdated: false }])
  await changesets.reject(id, 'go on', 'me')
  await changesets.reopen(id, (await bench.workspace()).id, 'me')
  await bench.agent(workspace, 'echo more >> f')
  await changesets.capture(workspace, { final: false })
  await expect(decide(named[1]!.slice(0, 8))).rejects.toMatchObject({ code: 'changeset.unseen' })
  expect((await decide(named[1]!)).files[0]!.hunks[1]?.decision).toBe('approve')
})
