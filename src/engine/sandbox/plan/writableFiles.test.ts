import { execFileSync } from 'node:child_process'
import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeGround, type Ground } from '../fixture.ts'
import { checkWritableFiles, removeUnwritten } from './writableFiles.ts'

const whyNot = async (ground: Ground, path: string, files: 'ro' | 'rw' = 'ro') => {
  const request = ground.request(['true'], { files, writableFiles: [join(ground.root, path)] })
  const [check] = await checkWritableFiles(request)
  return check === undefined ? null : `${check.ok} ${check.detail.replaceAll(ground.root, '')}`
}

test('a place that is to be writable is a file or folder of its root, and no link, wherever it leads', async () => {
  await using ground = await makeGround()
  const at = (path: string) => join(ground.root, path)
  await mkdir(at('docs'))
  await symlink('../README.md', at('docs/inside'))
  await symlink(ground.folder, at('folder-out'))
  await symlink('docs', at('folder-inside'))
  await symlink('NOT-YET.md', at('dangling'))
  execFileSync('mkfifo', [at('fifo')])
  for (const path of ['README.md', 'NEW.md', 'docs/NEW.md', 'docs'])
    expect(await whyNot(ground, path), path).toBeNull()
  expect(await whyNot(ground, 'docs/inside')).toBe('false /docs/inside is a link')
  expect(await whyNot(ground, 'docs/inside', 'rw')).toMatch('true /docs/inside is a link; were the boundary')
  expect(await whyNot(ground, 'dangling')).toBe('false /dangling is a link')
  for (const folder of ['folder-out', 'folder-inside']) {
    expect(await whyNot(ground, folder)).toBe(`false /${folder} is a link`)
    expect(await whyNot(ground, `${folder}/x`)).toBe(`false /${folder}/x its folder /${folder} is a link`)
  }
  expect(await whyNot(ground, 'fifo')).toBe('false /fifo is no regular file')
  expect(await whyNot(ground, 'none/made')).toBe('false /none/made its folder /none is not there')
})

test('what to do about one that cannot be writable names the key, since a default may have named the file', async () => {
  await using ground = await makeGround()
  await symlink('README.md', join(ground.root, 'AGENTS.md'))
  for (const path of ['AGENTS.md', 'none/made']) {
    const request = ground.request(['true'], { files: 'ro', writableFiles: [join(ground.root, path)] })
    expect(await checkWritableFiles(request)).toMatchObject([
      { fix: expect.stringContaining('sandboxPhaseFiles') },
    ])
  }
})

test("what the agent put in its layer earlier counts before the user's files", async () => {
  await using ground = await makeGround()
  await writeFile(join(ground.root, 'TODO.md'), '')
  await symlink('README.md', join(ground.upper, 'TODO.md'))
  expect(await whyNot(ground, 'TODO.md')).toBe('false /TODO.md is a link')
})

test('taking an unwritten file away again follows no link the agent put in the place of its folder', async () => {
  await using ground = await makeGround()
  const outside = join(ground.folder, 'outside')
  await mkdir(outside)
  await writeFile(join(outside, 'empty'), '')
  await symlink(outside, join(ground.upper, 'docs'))
  await mkdir(join(ground.upper, 'own'))
  await writeFile(join(ground.upper, 'own', 'empty'), '')
  await removeUnwritten(
    ['docs', 'own'].map((name) => {
      const folder = join(ground.upper, name)
      return { path: join(folder, 'empty'), folder }
    }),
  )
  expect(await readdir(outside)).toEqual(['empty'])
  expect(await readdir(join(ground.upper, 'own'))).toEqual([])
})
