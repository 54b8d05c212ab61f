import { chown, mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { foreignNotes } from './foreign.ts'
import { makeGround } from '../fixture.ts'

const own = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
/** The same files, as if another asked whose group is another. */
const ofGroup = (gid: number) => ({ ...own, gid })

test('files of a group that the sandbox does not know are told of before, with what helps', async () => {
  await using ground = await makeGround()
  await writeFile(join(ground.root, 'shared'), '')
  const request = ground.request(['true'])
  expect(await foreignNotes(request, own)).toEqual([])
  const [note, ...others] = await foreignNotes(request, ofGroup(own.gid + 1))
  expect(note).toMatch(/belongs to group \d+, .*chgrp -R \d+ .*--changeset clone/)
  expect(others).toEqual([])
})

test('where nothing is to be written, or a copy is, nobody is told', async () => {
  await using ground = await makeGround()
  await writeFile(join(ground.root, 'shared'), '')
  const request = ground.request(['true'])
  const { workspace } = request
  const other = ofGroup(own.gid + 1)
  const readOnly = workspace.roots.map((root) => ({ ...root, access: 'ro' as const }))
  const copied = workspace.roots.map((root) => ({
    ...root,
    mount: { kind: 'bind' as const, source: ground.upper },
  }))
  for (const quiet of [
    { ...request, files: 'ro' as const },
    { ...request, workspace: { ...workspace, roots: readOnly } },
    { ...request, workspace: { ...workspace, strategy: 'clone' as const, roots: copied } },
  ])
    expect(await foreignNotes(quiet, other)).toEqual([])
})

test('root is told of the files of others, in an overlay and in place', async ({ skip }) => {
  skip(own.uid !== 0, 'only root gives files away')
  await using ground = await makeGround()
  await mkdir(join(ground.root, 'theirs'))
  await symlink('/', join(ground.root, 'a link'))
  await chown(join(ground.root, 'theirs'), 1000, 1000)
  const request = ground.request(['true'])
  expect(await foreignNotes(request, own)).toEqual([
    expect.stringMatching(/theirs belongs to user 1000, .*run Orangery as user 1000, or .*clone/),
  ])
  const direct = { ...request, workspace: { ...request.workspace, strategy: 'none' as const } }
  expect(await foreignNotes(direct, own)).toEqual([expect.stringMatching(/run Orangery as user 1000\.$/)])
})
