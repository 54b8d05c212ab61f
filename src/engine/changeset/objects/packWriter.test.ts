import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { git } from '../../base/git.ts'
import { realDisk } from '../disk.ts'
import { BlobReader, ensureRepository } from './objects.ts'
import { PackWriter } from './packWriter.ts'

test('objects of every size are what git itself takes them for', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'orangery-pack-'))
  try {
    const gitDir = join(folder, 'objects.git')
    await ensureRepository(gitDir, realDisk)
    const writer = new PackWriter(gitDir, realDisk)
    const sizes = [0, 1, 15, 16, 4095, 4096, 4097, 32_768, 32_769, 70_000]
    const contents = sizes.flatMap((size) => [
      randomBytes(size),
      Buffer.alloc(size, 0xff),
      Buffer.alloc(size, 'ab\n'),
    ])
    const names = []
    for (const content of contents) names.push(await writer.add('blob', content))
    await writer.flush()
    await git(['fsck', '--full', '--strict'], { gitDir })
    await using blobs = new BlobReader(gitDir)
    for (const [at, content] of contents.entries()) {
      const [named] = (await git(['hash-object', '-t', 'blob', '--stdin'], { gitDir, input: content }))
        .toString()
        .split('\n')
      expect(names[at]).toBe(named)
      expect((await blobs.read(names[at] ?? '')).equals(content)).toBe(true)
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
