import { expect, test } from 'vitest'
import { createChangesets } from './changesets.ts'
import { watchedDisk } from './disk.ts'
import { Bench } from './testing.ts'

test('a look at a running agent costs what changed since the last one: nothing new is only a walk', async () => {
  await using bench = await Bench.make()
  await bench.user('for i in $(seq 50); do echo $i > f$i; done')
  const operations: string[] = []
  const disk = watchedDisk((operation) => void operations.push(operation))
  const { layout, store } = bench
  const changesets = createChangesets({ layout, records: store.changesets, disk })
  const workspace = await bench.workspace()
  const look = async () => {
    operations.length = 0
    const captured = await changesets.capture(workspace, { final: false })
    return { captured, operations: [...operations] }
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
