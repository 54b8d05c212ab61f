import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import { run } from '../../base/process.ts'
import type { Workspace } from '../../base/workspace.ts'
import { hasWork } from './dispose.ts'
import { Ground } from '../fixture.ts'
import { holdsMore } from './leftover.ts'

let ground: Ground
let real: string
let upper: string
beforeEach(async () => {
  ground = await Ground.make()
  real = await ground.folder('real')
  upper = await ground.folder('upper')
  await mkdir(join(real, 'folder', 'deep'), { recursive: true })
  await writeFile(join(real, 'folder', 'old'), 'old')
  await writeFile(join(real, 'folder', 'deep', 'kept'), 'old')
  await mkdir(join(upper, 'folder'))
})
afterEach(() => ground[Symbol.asyncDispose]())

/** As the kernel marks a folder that was removed and made anew. */
async function replace(path: string): Promise<void> {
  const marked = await run('setfattr', ['-n', 'user.overlay.opaque', '-v', 'y', join(upper, path)])
  expect(marked.code).toBe(0)
}

const workspace = (): Workspace => ({
  id: '20260128120500-b7c9' as DispatchId,
  repoId: '0123456789abcdef' as RepoId,
  strategy: 'overlay',
  driver: 'kernel-overlay',
  dir: ground.base,
  createdAtMs: 0,
  roots: [
    {
      path: real,
      target: real,
      name: 'real',
      role: 'project',
      access: 'rw',
      mount: { kind: 'overlay', lower: real, upper, work: ground.path('work') },
    },
  ],
})

test('a removal in a folder that was replaced and that did not land is work left in the sandbox', async () => {
  // The control: the same layer, where the folder shows the original below it.
  expect(await holdsMore(workspace())).toBe(false)
  expect(await hasWork(workspace())).toBe(false)
  await replace('folder')
  expect(await holdsMore(workspace())).toBe(true)
  expect(await hasWork(workspace())).toBe(true)
})

test('so is one in a folder below it', async () => {
  await writeFile(join(upper, 'folder', 'old'), 'old')
  await mkdir(join(upper, 'folder', 'deep'))
  expect(await holdsMore(workspace())).toBe(false)
  await replace('folder')
  expect(await holdsMore(workspace())).toBe(true)
})

test('a replaced folder with all that the real one holds by now holds nothing more, nor does a new one', async () => {
  await writeFile(join(upper, 'folder', 'old'), 'old')
  await mkdir(join(upper, 'folder', 'deep'))
  await writeFile(join(upper, 'folder', 'deep', 'kept'), 'old')
  await replace('folder')
  for (const tree of [real, upper]) await mkdir(join(tree, 'new é\n'))
  await replace('new é\n')
  expect(await holdsMore(workspace())).toBe(false)
})

test('a new folder alone is no work, though the kernel marks it the same way', async () => {
  await mkdir(join(upper, 'new'))
  await replace('new')
  expect(await hasWork(workspace())).toBe(false)
})
