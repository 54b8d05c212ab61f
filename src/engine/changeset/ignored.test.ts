import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { git } from '../base/git.ts'
import { fromText } from './bytePath.ts'
import { ignoredPaths } from './ignored.ts'

const paths = [
  ':(glob)x',
  ':/',
  'alink/k',
  'alink/node_modules/m',
  'alink/keep.log',
  'node_modules/m',
  'z',
  'a.log',
].map(fromText)
const ignored = ['alink/node_modules/m', 'node_modules/m', 'a.log'].map(fromText)

test.each(['with git', 'without git', 'with a broken .git'])(
  'no name of an agent switches off what the base ignores, %s',
  async (how) => {
    const folder = await mkdtemp(join(tmpdir(), 'orangery-ignored-test-'))
    try {
      const base = join(folder, 'base')
      await git(['init', '-q', '--bare', join(folder, 'own')])
      await mkdir(base)
      await writeFile(join(base, '.gitignore'), 'node_modules/\n*.log\n!keep.log\n')
      await symlink('z', join(base, 'alink'))
      if (how === 'with git') await git(['init', '-q', base])
      if (how === 'with a broken .git') await writeFile(join(base, '.git'), 'gitdir: nowhere\n')
      expect(await ignoredPaths(base, join(folder, 'own'), paths)).toEqual(new Set(ignored))
    } finally {
      await rm(folder, { recursive: true })
    }
  },
)

test('where git cannot be asked everything counts as ignored', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'orangery-ignored-test-'))
  try {
    const found = await ignoredPaths(folder, join(folder, 'none'), paths)
    expect(found).toEqual(new Set(paths))
  } finally {
    await rm(folder, { recursive: true })
  }
})
