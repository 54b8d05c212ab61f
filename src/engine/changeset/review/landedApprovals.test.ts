import { expect, test } from 'vitest'
import type { Workspace } from '../../base/workspace.ts'
import { Bench } from '../testing.ts'

const approved = { all: false, include_ignored: false }
const all = { all: true, include_ignored: false }

async function nextTurn(bench: Bench, workspace: Workspace, script: string): Promise<void> {
  await bench.changesets.reject(workspace.id, 'go on', 'me')
  await bench.changesets.reopen(workspace.id, (await bench.workspace()).id, 'me')
  await bench.agent(workspace, script)
  await bench.changesets.capture(workspace, { final: true })
}
async function approve(bench: Bench, { id }: Workspace, path: string, hunk?: number): Promise<void> {
  const { files, revision } = await bench.changesets.get(id)
  const name = hunk === undefined ? undefined : files.find((file) => file.path === path)?.hunks[hunk]?.id
  await bench.changesets.decide(id, { path, hunk: name, verdict: 'approve', revision }, 'me')
}
const told = async (bench: Bench, { id }: Workspace) =>
  (await bench.changesets.get(id)).files.map(({ path, decision, reopened, hunks }) => [
    path,
    decision,
    reopened,
    hunks.map((hunk) => hunk.decision),
  ])

test.each([
  ['text', 'seq 60 > f', `sed -i 's/^5$/five/;s/^30$/thirty/' f`, 'sed -i s/^five$/FIVE/ f', 2],
  ['new text', 'true', 'seq 60 > f', 'echo more >> f', 1],
  ['text with another mode', 'seq 60 > f', 'sed -i s/^5$/five/ f; chmod 755 f', 'sed -i s/five/FIVE/ f', 1],
  ['text that is put back', 'seq 60 > f', `sed -i 's/^5$/five/;s/^30$/thirty/' f`, 'sed -i s/five/5/ f', 1],
  ['binary', 'printf "a\\0b" > f', 'printf "c\\0d" > f', 'printf "e\\0f" > f', 0],
  ['link', 'ln -s a f', 'ln -sfn b f', 'ln -sfn c f', 1],
])(
  '%s that landed, was changed again and landed again is approved, and comes back whole after an undo',
  async (_, user, agent, again, hunks) => {
    await using bench = await Bench.make()
    await bench.user(user)
    const before = await bench.snapshot()
    const { id, workspace } = await bench.dispatch(`${agent}; echo g > g`)
    await approve(bench, workspace, 'f', hunks === 2 ? 0 : undefined)
    await bench.changesets.apply(id, approved, 'me')
    const first = await bench.snapshot()
    await nextTurn(bench, workspace, again)
    for (const path of ['f', 'g']) await approve(bench, workspace, path)
    expect(await bench.changesets.apply(id, approved, 'me')).toMatchObject({ state: 'applied' })
    const landed = await bench.snapshot()
    const whole = [
      ['f', 'approve', false, Array.from({ length: hunks }, () => 'approve')],
      ['g', 'approve', false, ['approve']],
    ]
    expect(await told(bench, workspace)).toEqual(whole)
    await bench.changesets.undo(id, 'me', { last: true })
    expect(await bench.snapshot()).toBe(first)
    expect(await told(bench, workspace)).toMatchObject([['f', 'approve', false, {}], whole[1]])
    await bench.changesets.apply(id, approved, 'me')
    expect(await bench.snapshot()).toBe(landed)
    await bench.changesets.undo(id, 'me')
    expect(await bench.snapshot()).toBe(before)
    expect(await told(bench, workspace)).toEqual(whole)
    const { state, skipped } = await bench.changesets.apply(id, approved, 'me')
    expect([state, skipped, await bench.snapshot()]).toEqual(['applied', [], landed])
    expect(await told(bench, workspace)).toEqual(whole)
  },
)

test('after an undo only what had landed of a file is approved, and what was rejected or open is so still', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 90 > f')
  const { id, workspace } = await bench.dispatch(
    `sed -i 's/^5$/five/;s/^30$/thirty/;s/^60$/sixty/' f; chmod 755 f`,
  )
  await approve(bench, workspace, 'f', 0)
  await bench.changesets.apply(id, approved, 'me')
  await nextTurn(bench, workspace, 'sed -i s/five/FIVE/ f')
  const { hunks } = (await bench.changesets.get(id)).files[0]!
  await bench.changesets.decide(id, { path: 'f', hunk: hunks[1]!.id, verdict: 'reject' }, 'me')
  await approve(bench, workspace, 'f', 0)
  await bench.changesets.apply(id, approved, 'me')
  const landed = await bench.snapshot()
  expect(await told(bench, workspace)).toMatchObject([['f', null, {}, ['reject', null]]])
  await bench.changesets.undo(id, 'me')
  expect(await told(bench, workspace)).toMatchObject([['f', null, {}, ['approve', 'reject', null]]])
  await bench.changesets.apply(id, approved, 'me')
  expect(await bench.snapshot()).toBe(landed)
})

test('what was rejected once and landed later is approved when it comes back, however it was first said no to', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 60 > f')
  const { id, workspace } = await bench.dispatch('sed -i s/^5$/FIVE/ f')
  await bench.changesets.decide(id, { path: 'f', verdict: 'reject' }, 'me')
  await nextTurn(bench, workspace, 'sed -i s/FIVE/five/ f')
  await bench.changesets.apply(id, all, 'me')
  await bench.agent(workspace, 'sed -i s/five/FIVE/ f')
  await bench.changesets.capture(workspace, { final: true })
  await bench.changesets.apply(id, all, 'me')
  const landed = await bench.snapshot()
  expect(await told(bench, workspace)).toEqual([['f', 'approve', false, ['approve']]])
  await bench.changesets.undo(id, 'me')
  await bench.changesets.apply(id, approved, 'me')
  expect(await bench.snapshot()).toBe(landed)
})

test('a file that two undos brought back and of which all is approved is not reopened, and lands whole', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 90 > f')
  const { id, workspace } = await bench.dispatch(`sed -i 's/^5$/five/;s/^30$/thirty/;s/^60$/sixty/' f`)
  await approve(bench, workspace, 'f')
  await bench.changesets.apply(id, approved, 'me')
  await bench.changesets.undo(id, 'me')
  await nextTurn(bench, workspace, 'sed -i s/five/FIVE/ f')
  await bench.changesets.apply(id, approved, 'me')
  await approve(bench, workspace, 'f')
  await bench.changesets.undo(id, 'me', { last: true })
  expect(await told(bench, workspace)).toEqual([['f', 'approve', false, ['approve', 'approve', 'approve']]])
  expect(await bench.changesets.apply(id, approved, 'me')).toMatchObject({ state: 'applied', skipped: [] })
})

test('a file of which an approved hunk is gone with the next turn says so until somebody has decided on that version', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 90 > f')
  const { workspace } = await bench.dispatch(`sed -i 's/^5$/five/;s/^30$/thirty/' f`)
  await approve(bench, workspace, 'f')
  await nextTurn(bench, workspace, 'sed -i s/thirty/30/ f')
  expect(await told(bench, workspace)).toEqual([['f', 'approve', true, ['approve']]])
  await approve(bench, workspace, 'f', 0)
  expect(await told(bench, workspace)).toEqual([['f', 'approve', false, ['approve']]])
})
