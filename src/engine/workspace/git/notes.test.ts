import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeFeature } from '../fixture.ts'
import { changedPaths, uncommittedNotes } from './notes.ts'
import { openRepository } from './repository.ts'

test('a file that was taken out of the index and still lies there is named once', () => {
  expect(changedPaths('D  new.txt\0 M a.txt\0?? new.txt\0')).toEqual(['new.txt', 'a.txt'])
})

test('our marker is no uncommitted work, also where nothing hides it any more, and a file beside it is', async () => {
  const { ground, worktree } = await makeFeature()
  await using _ground = ground
  await rm(join(worktree.common_dir, 'info', 'exclude'))
  const notes = async () => uncommittedNotes(await openRepository(worktree.common_dir), [worktree.tree_path])
  expect(await notes()).toEqual([])
  await writeFile(join(worktree.tree_path, '.agency', 'mine'), '')
  expect(await notes()).toEqual([expect.stringContaining('.agency/')])
})
