import { expect, test } from 'vitest'
import { Bench } from '../../src/engine/changeset/testing.ts'

const setUp = `seq 5 > f; seq 5 > g; mkdir d other src; seq 5 > d/f; echo "my other work" > other/f
  seq 5 > src/a; seq 5 > src/b`
const agent = 'echo agent >> f; sed -i s/1/one/ g; echo agent >> d/f; rm -f other/f; echo new > src/n'
const user = 'rm f g; mv d d.bak; mv other d; echo mine > src/mine; mv src/b src/c'
const mayHaveChanged = 'it may have changed after the agent started'

test.each([
  ['over the originals, where it happens before the first look', false],
  ['in a copy, where it happens at any time', true],
])(
  'what the user deleted, or replaced by renaming a folder, is a conflict for an agent %s',
  async (_, isCopy) => {
    await using bench = await Bench.make()
    await bench.user(setUp)
    const workspace = await (isCopy ? bench.copiedWorkspace() : bench.workspace())
    if (!isCopy) await bench.agent(workspace, agent)
    await bench.user(user)
    const before = await bench.snapshot()
    if (isCopy) await bench.agent(workspace, agent)
    const { id } = workspace
    await bench.changesets.capture(workspace, { final: true })
    const { conflicts } = await bench.changesets.conflicts(id)
    const told = new Map(conflicts.map(({ path, why }) => [path, why]))
    for (const path of ['d/f', 'f', 'g']) expect(told.get(path)).toBe(mayHaveChanged)
    await expect(
      bench.changesets.apply(id, { all: true, include_ignored: false }, 'test'),
    ).rejects.toMatchObject({ kind: 'busy' })
    expect(await bench.snapshot()).toBe(before)
    const { files } = await bench.changesets.get(id)
    // A copy has the folder from which it came; the agent has not made it.
    if (isCopy) expect(files.map(({ path }) => path)).not.toContain('other')
  },
)

test.each([
  ['over the originals', false],
  ['in a copy', true],
])('what the user does beside the files of an agent that works %s is no conflict', async (_, isCopy) => {
  await using bench = await Bench.make()
  await bench.user(setUp)
  const workspace = await (isCopy ? bench.copiedWorkspace() : bench.workspace())
  await bench.user('echo mine > src/mine; mv src/b src/c; echo mine > mine; rm g')
  await new Promise((resolve) => setTimeout(resolve, 20))
  await bench.agent(workspace, 'echo agent >> src/a; echo new > src/n; mv d e; mv f h; echo w > w')
  await bench.changesets.capture(workspace, { final: true })
  expect((await bench.changesets.conflicts(workspace.id)).conflicts).toEqual([])
  expect((await bench.changesets.get(workspace.id)).files.map(({ path }) => path)).toEqual([
    'e/f',
    'h',
    'src/a',
    'src/n',
    'w',
  ])
})

test.each([
  ['has only read there', 'd', 'cat d/f > /dev/null', true],
  ['has written there, deep down', 'a/b/c/e/d', 'echo n > a/b/c/e/d/n', true],
  ['has not been there', 'd', 'true', false],
])(
  'a folder that the user swaps for another, with names that come and go in it, is noticed when the agent %s before',
  async (_, folder, first, knowsIt) => {
    await using bench = await Bench.make()
    await bench.user(`mkdir -p ${folder} other; seq 5 > ${folder}/f; echo "my other work" > other/f`)
    const workspace = await bench.workspace()
    const meet = (name: string) => `while ! test -e ${bench.folder}/${name}; do sleep 0.02; done`
    const running = bench.agent(
      workspace,
      `${first}; touch ${bench.folder}/ready; ${meet('go')}; echo agent >> ${folder}/f`,
    )
    await bench.user(meet('ready'))
    await bench.changesets.capture(workspace, { final: false })
    await bench.user(`mv ${folder} gone; mv other ${folder}; echo m > ${folder}/m; rm ${folder}/m`)
    await bench.user(`touch ${bench.folder}/go`)
    await running
    await bench.changesets.capture(workspace, { final: true })
    // The control: the kernel keeps showing an agent the folder that it knew.
    const { text } = await bench.changesets.diff(workspace.id, { path: `${folder}/f` })
    expect(text.includes('-my other work')).toBe(knowsIt)
    const { conflicts } = await bench.changesets.conflicts(workspace.id)
    expect(conflicts).toMatchObject([{ path: `${folder}/f`, why: mayHaveChanged }])
  },
)

test('applies, and what the user does in folders of his own, do not make a folder another one', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir -p d/e x; seq 5 > d/e/f; seq 6 > d/e/g; echo x > x/x')
  const workspace = await bench.workspace()
  await bench.changesets.capture(workspace, { final: false })
  await bench.agent(workspace, 'echo agent >> d/e/f; rm -r x; mkdir n; echo n > n/n')
  const { id } = workspace
  await bench.changesets.capture(workspace, { final: true })
  const all = { all: true, include_ignored: false }
  await bench.changesets.apply(id, all, 'test')
  await bench.user('echo mine > d/mine; echo mine > d/e/mine; rm d/mine; mkdir d/new')
  await bench.changesets.undo(id, 'test')
  await bench.changesets.apply(id, all, 'test')
  await bench.agent(workspace, 'echo agent >> d/e/g; echo m > n/m; mkdir x; echo y > x/y')
  await bench.changesets.capture(workspace, { final: true })
  expect((await bench.changesets.conflicts(id)).conflicts).toEqual([])
  await bench.changesets.apply(id, all, 'test')
})

test('what the user deletes after the next turn has renamed a file of the last one onto it is a conflict', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 60 > f; echo g > g')
  const { id, workspace } = await bench.dispatch('echo agent >> f')
  await bench.changesets.reject(id, 'go on', 'test')
  const { id: next } = await bench.workspace()
  await bench.changesets.reopen(id, next, 'test')
  await bench.agent(workspace, 'mv f g')
  await new Promise((resolve) => setTimeout(resolve, 20))
  await bench.user('rm g')
  await bench.changesets.capture(workspace, { final: true })
  const { conflicts } = await bench.changesets.conflicts(id)
  expect(conflicts).toMatchObject([{ path: 'g', why: mayHaveChanged }])
})

test('what an agent in a copy takes away goes also where the user has touched it or its folder meanwhile', async () => {
  await using bench = await Bench.make()
  await bench.user(
    'mkdir d x other; seq 5 > d/f; seq 9 > d/g; echo x > x/f; echo "my other work" > other/f; echo l > lone',
  )
  const workspace = await bench.copiedWorkspace()
  await bench.user('echo n > d/notes; echo mine >> lone; mv x x.bak; mv other x')
  await bench.agent(workspace, 'mv d e; rm lone; rm -r x')
  await bench.changesets.capture(workspace, { final: true })
  const { id } = workspace
  const { conflicts } = await bench.changesets.conflicts(id)
  expect(conflicts.map(({ path, why }) => [path, why])).toEqual([
    ['lone', mayHaveChanged],
    ['x/f', mayHaveChanged],
  ])
  for (const path of ['lone', 'x/f']) await bench.changesets.resolve(id, { path, choice: 'mine' }, 'test')
  await bench.changesets.apply(id, { all: true, include_ignored: false }, 'test')
  const names = (await bench.snapshot()).split('\n').map((line) => line.split(' ')[0])
  for (const path of ['d/notes', 'e/f', 'e/g', 'lone', 'x/f']) expect(names).toContain(path)
  for (const path of ['d/f', 'd/g', 'e/notes']) expect(names).not.toContain(path)
})
