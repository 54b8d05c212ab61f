import { rename, rm, symlink } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { createChangesets } from '../changesets.ts'
import { watchedDisk } from '../disk.ts'
import { Bench } from '../testing.ts'

test('a look at a running agent costs what changed since the last one: nothing new is only a walk', async () => {
  await using bench = await Bench.make()
  await bench.user('for i in $(seq 50); do echo $i > f$i; done')
  const operations: string[] = []
  // A walk opens and lists folders and reads nothing.
  const walk = new Set(['open', 'list', 'lstat', 'close'])
  const disk = watchedDisk((operation) => void operations.push(operation))
  const { layout, store } = bench
  const changesets = createChangesets({ layout, records: store.changesets, disk })
  const workspace = await bench.workspace()
  const look = async () => {
    operations.length = 0
    const captured = await changesets.capture(workspace, { final: false })
    return { captured, operations: operations.filter((each) => !walk.has(each)) }
  }
  expect((await look()).captured).toBeNull()
  await bench.agent(
    workspace,
    'for i in $(seq 50); do echo $i again > f$i; done; mkdir -m 700 d; echo n > d/n',
  )
  // Written a moment ago may mean written again: only what has settled is relied on.
  await new Promise((resolve) => setTimeout(resolve, 150))
  const first = await look()
  expect(first.captured?.files).toBe(51)
  expect(first.operations).toContain('write')
  const second = await look()
  expect(second).toEqual({ captured: first.captured, operations: [] })
  await bench.agent(workspace, 'echo more >> f7; rm f8')
  await new Promise((resolve) => setTimeout(resolve, 150))
  const third = await look()
  expect(third.captured?.revision).not.toBe(first.captured?.revision)
  const { files } = await changesets.get(workspace.id)
  expect(files.find((file) => file.path === 'f8')?.change).toBe('deleted')
  expect(files.find((file) => file.path === 'f7')?.insertions).toBe(2)
  expect((await look()).operations).toEqual([])
  // The last look never relies on an earlier one.
  operations.length = 0
  await changesets.capture(workspace, { final: true })
  expect(operations).toContain('write')
})

test('a glance lists what a capture finds, with names of any bytes, deletions and replaced folders', async () => {
  await using bench = await Bench.make()
  await bench.user(`mkdir -p cut/deep keep same; echo a > cut/a; echo b > cut/deep/b; echo k > keep/k; echo gone > gone
    echo link > link; mkdir swap; echo s > swap/s; echo mode > keep/mode`)
  const workspace = await bench.workspace()
  await bench.agent(
    workspace,
    `rm -r cut; mkdir cut; echo new > cut/n; rm gone; echo longer >> keep/k; ln -sf k link; rm -r swap; echo f > swap
     printf x > "$(printf 'bad \\377 name')"; printf y > 'new
line'; mkdir -m 000 closed; chmod 755 keep/mode`,
  )
  const glimpsed = (await bench.changesets.peek(workspace)).map(({ path, change }) => `${change} ${path}`)
  const seen = new Set(glimpsed)
  await bench.changesets.capture(workspace, { final: true })
  const { files } = await bench.changesets.get(workspace.id)
  // A glance reads no content: a rename is a file that came and one that went, a changed mode a changed file.
  const found = files.flatMap(({ path, from_path, change }) =>
    change === 'renamed'
      ? [`added ${path}`, `deleted ${from_path}`]
      : [`${change === 'mode' ? 'modified' : change} ${path}`],
  )
  expect(found.length).toBeGreaterThan(9)
  expect(found.filter((each) => !seen.has(each))).toEqual([])
  const kept = (await bench.changesets.peek(workspace)).find(({ path }) => path === 'keep/k')
  expect(kept).toMatchObject({ change: 'modified', size_before: 2, size_after: 9 })
})

test.each([
  ['moved away', 'it is no longer there', async () => {}],
  ['moved, with a link left in its place,', /a link leads from there to .*-moved by now$/, symlink],
])(
  'a root that was %s while the agent ran is named, and what was written is captured once it is back',
  async (_, why, leave) => {
    await using bench = await Bench.make()
    await bench.user('echo a > a')
    const workspace = await bench.workspace()
    await bench.agent(workspace, 'echo b >> a')
    const elsewhere = `${bench.root}-moved`
    await rename(bench.root, elsewhere)
    await leave(elsewhere, bench.root)
    await expect(bench.changesets.capture(workspace, { final: true })).rejects.toMatchObject({
      code: 'changeset.root_gone',
      message: expect.stringMatching(why),
    })
    await rm(bench.root, { force: true })
    await rename(elsewhere, bench.root)
    await bench.changesets.capture(workspace, { final: true })
    const { files } = await bench.changesets.get(workspace.id)
    expect(files.map(({ path, change }) => [path, change])).toEqual([['a', 'modified']])
  },
)
