import { execFileSync } from 'node:child_process'
import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeGround, type Ground } from './fixture.ts'
import { checkWritableFiles, removeUnwritten } from './writableFiles.ts'

const whyNot = async (ground: Ground, path: string, files: 'ro' | 'rw' = 'ro') => {
  const request = ground.request(['true'], { files, writableFiles: [join(ground.root, path)] })
  const [check] = await checkWritableFiles(request)
  return check === undefined ? null : `${check.ok} ${check.detail.replaceAll(ground.root, '')}`
}

test('a file that stays writable is one of its root, whatever links the repository has', async () => {
  await using ground = await makeGround()
  const at = (path: string) => join(ground.root, path)
  const outside = join(ground.folder, 'outside')
  await mkdir(outside)
  await mkdir(at('docs'))
  await mkdir(at('.git'))
  await writeFile(at('.git/config'), '')
  await symlink('../README.md', at('docs/inside'))
  await symlink(at('docs/inside'), at('by-path'))
  await symlink('NOT-YET.md', at('dangling'))
  for (const path of ['README.md', 'NEW.md', 'docs/NEW.md', 'docs/inside', 'by-path', 'dangling'])
    expect(await whyNot(ground, path), path).toBeNull()
  await symlink(join(outside, 'made'), at('out'))
  await symlink('../outside/made', at('out-by-dots'))
  await symlink(outside, at('folder-out'))
  await symlink('out', at('chain'))
  await symlink('self', at('self'))
  await symlink('.git/config', at('git'))
  execFileSync('mkfifo', [at('fifo')])
  const leaves = 'is a link that leads out of the root'
  expect(await whyNot(ground, 'out')).toBe(`false /out ${leaves}`)
  expect(await whyNot(ground, 'out', 'rw')).toMatch(`true /out ${leaves}`)
  expect(await whyNot(ground, 'out-by-dots')).toBe(`false /out-by-dots ${leaves}`)
  expect(await whyNot(ground, 'folder-out/made')).toBe(`false /folder-out/made ${leaves}`)
  expect(await whyNot(ground, 'chain')).toBe(`false /chain ${leaves}`)
  expect(await whyNot(ground, 'self')).toBe('false /self is a link that leads to itself')
  expect(await whyNot(ground, 'git')).toBe('false /git is a link that leads into .git')
  expect(await whyNot(ground, 'docs')).toBe('false /docs is a folder')
  expect(await whyNot(ground, 'fifo')).toBe('false /fifo is no regular file')
  expect(await whyNot(ground, 'none/made')).toBe('false /none/made its folder /none is not there')
})

test("what the agent put in its layer earlier counts before the user's files", async () => {
  await using ground = await makeGround()
  await writeFile(join(ground.root, 'TODO.md'), '')
  await symlink(join(ground.folder, 'made'), join(ground.upper, 'TODO.md'))
  expect(await whyNot(ground, 'TODO.md')).toBe('false /TODO.md is a link that leads out of the root')
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
