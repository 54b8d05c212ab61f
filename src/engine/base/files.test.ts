import { mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { ensurePrivateDir, writeFileAtomically } from './files.ts'

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'orangery-files-'))
})
afterEach(() => rm(dir, { recursive: true }))

test('a private folder is made with its parents, and making it again is no error', async () => {
  const path = join(dir, 'a', 'b', 'c')
  await Promise.all([ensurePrivateDir(path), ensurePrivateDir(path)])
  await ensurePrivateDir(path)
  expect((await stat(path)).mode & 0o777).toBe(0o700)
})

test('a folder that cannot be made is an error at once, also where the system says "no such file" for ever', async () => {
  await expect(ensurePrivateDir('/proc/orangery/x')).rejects.toMatchObject({ code: 'ENOENT' })
  await writeFile(join(dir, 'file'), '')
  await expect(ensurePrivateDir(join(dir, 'file'))).rejects.toMatchObject({ code: 'EEXIST' })
  await expect(ensurePrivateDir(join(dir, 'file', 'x'))).rejects.toMatchObject({ code: 'ENOTDIR' })
})

test('an atomic write replaces the whole file and leaves nothing beside it', async () => {
  const path = join(dir, 'x.json')
  await writeFileAtomically(path, 'one')
  await writeFileAtomically(path, 'two')
  expect(await readFile(path, 'utf8')).toBe('two')
  expect(await readdir(dir)).toEqual(['x.json'])
})
