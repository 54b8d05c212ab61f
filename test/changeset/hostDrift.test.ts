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
