import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { git } from '../../base/git.ts'
import { makeGround } from '../fixture.ts'
import { hideNotes } from './hideNotes.ts'

test('a file that is hidden and tracked by git is told at the start, in a root or in a folder of it', async () => {
  await using ground = await makeGround()
  const { root } = ground
  const notes = (...hide: readonly string[]) => hideNotes(ground.request(['true'], { hide }))
  await mkdir(join(root, 'sec'))
  for (const path of ['.env', 'sec/key', '.env.local']) await writeFile(join(root, path), 'secret\n')
  expect(await notes('.env')).toEqual([])
  await git(['init', '-q'], { cwd: root })
  await git(['add', '.env', 'sec/key'], { cwd: root })
  for (const pattern of ['.env*', '**/.env', './.env', join(root, '.env')]) {
    expect(await notes(pattern)).toEqual([
      expect.stringContaining('tracked by git: .env. The agent can read'),
    ])
  }
  for (const pattern of ['sec', 'sec/', 's*', '**/key']) {
    expect(await notes(pattern)).toEqual([expect.stringContaining('tracked by git: sec/key. The agent')])
  }
  expect(await notes('.env.local', 'other/.env')).toEqual([])
  expect(await notes()).toEqual([])
})

test('that the real files hide nothing for good is told at the start', async () => {
  await using ground = await makeGround()
  const { workspace } = ground.request(['true'])
  const notes = (hide: readonly string[]) =>
    hideNotes(ground.request(['true'], { hide, workspace: { ...workspace, strategy: 'none' } }))
  expect(await notes(['.env'])).toEqual([expect.stringContaining('shows again once it is replaced')])
  expect(await notes([])).toEqual([])
})
