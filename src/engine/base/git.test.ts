import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { alsoObjectsOf, git, quotedPath } from './git.ts'

test('objects are borrowed from a repository whatever its path holds, for one call and for good', async () => {
  const base = await mkdtemp(join(tmpdir(), 'orangery-git-'))
  try {
    for (const name of ['plain', 're:po', 're"po', '#re\\po', 're\npo\u0007', 'r\u0085é'].map((each) =>
      join(base, each),
    )) {
      const [theirs, once, always] = ['theirs', 'once', 'always'].map((each) => join(name, each)) as [
        string,
        string,
        string,
      ]
      await mkdir(name)
      for (const gitDir of [theirs, once, always]) await git(['init', '-q', '--bare', '--template=', gitDir])
      const written = await git(['hash-object', '-w', '--stdin'], { gitDir: theirs, input: 'shared' })
      const show = ['cat-file', 'blob', written.toString().trim()]
      const read = await git(show, { gitDir: once, env: alsoObjectsOf(theirs) })
      expect(read.toString(), name).toBe('shared')
      await mkdir(join(always, 'objects/info'), { recursive: true })
      await writeFile(join(always, 'objects/info/alternates'), `${quotedPath(join(theirs, 'objects'))}\n`)
      expect((await git(show, { gitDir: always })).toString(), name).toBe('shared')
    }
  } finally {
    await rm(base, { recursive: true })
  }
})

test('where git is missing that is told, with what helps, and not taken for a working directory that is gone', async () => {
  const env = { PATH: '/nonexistent/bin' }
  await expect(git(['version'], { env })).rejects.toMatchObject({ code: 'git.missing', exitCode: 69 })
  const folder = await mkdtemp(join(tmpdir(), 'orangery-git-'))
  try {
    await writeFile(join(folder, 'git'), '', { mode: 0o600 })
    await expect(git(['version'], { env: { PATH: folder } })).rejects.toMatchObject({ code: 'git.missing' })
  } finally {
    await rm(folder, { recursive: true })
  }
  await expect(git(['version'], { env, cwd: '/' })).rejects.toMatchObject({ code: 'git.missing' })
  await expect(git(['version'], { cwd: '/nonexistent/folder' })).rejects.toMatchObject({ code: 'ENOENT' })
})
