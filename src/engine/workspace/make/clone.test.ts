import { chmod, chown, lstat, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { copyTree } from './clone.ts'

test('a copy that root makes of the files of others is his own, with their modes and times: else no agent could write it', async ({
  skip,
}) => {
  skip(process.getuid?.() !== 0, 'only root gives files away')
  const folder = await mkdtemp(join(tmpdir(), 'orangery-copy-'))
  try {
    const [from, to] = [join(folder, 'from'), join(folder, 'to')]
    await mkdir(from)
    await writeFile(join(from, 'script'), '')
    await chmod(join(from, 'script'), 0o754)
    for (const path of [from, join(from, 'script')]) await chown(path, 1000, 2000)
    await copyTree(from, to, 'plain-copy')
    const [before, copy] = await Promise.all([from, to].map((at) => lstat(join(at, 'script'))))
    expect(copy).toMatchObject({ uid: 0, gid: 0, mode: before?.mode, mtimeMs: before?.mtimeMs })
    expect(await lstat(to)).toMatchObject({ uid: 0, gid: 0 })
  } finally {
    await rm(folder, { recursive: true })
  }
})
