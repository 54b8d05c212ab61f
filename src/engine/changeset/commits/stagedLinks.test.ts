import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { gitlinksIn } from './stagedLinks.ts'
import { Bench } from '../testing.ts'

const commit = '1234567890123456789012345678901234567890'

test('a submodule that the agent only staged elsewhere is told in the review', async () => {
  await using bench = await Bench.make()
  const stage = (path: string, oid: string) => `git update-index --add --cacheinfo 160000,${oid},${path}`
  await bench.user(
    `git init -q; ${stage('lib/sub', commit)}; ${stage('gone', commit)}; ${stage('same', commit)}; git -c user.name=U -c user.email=u@x commit -qm first`,
  )
  const other = commit.replaceAll('1', 'a')
  const { id } = await bench.dispatch(
    `echo x > x; ${stage('lib/sub', other)}; git update-index --force-remove gone`,
  )
  const { dropped } = await bench.changesets.get(id)
  const told = new Map(dropped.map(({ path, why }) => [path, why]))
  expect(told.get('lib/sub')).toContain(`the agent staged this submodule at ${other.slice(0, 12)}`)
  expect(told.get('gone')).toContain('the agent staged the removal of this submodule')
  expect(told.has('same')).toBe(false)
})

test('an index is read as git reads it, in each of its versions, and a broken one not at all', async () => {
  await using bench = await Bench.make()
  await bench.user(
    'git init -q; mkdir -p d/e; for name in a d/e/f d/e/longer-name d/z; do echo x > $name; done; git add .',
  )
  for (const version of ['2', '3', '4']) {
    await bench.user(
      `git update-index --index-version ${version}; git update-index --add --cacheinfo 160000,${commit},d/e/sub; : > d/new; git add -N d/new; git update-index --index-version ${version}`,
    )
    const index = await readFile(join(bench.root, '.git/index'))
    expect([...gitlinksIn(index)!]).toEqual([['d/e/sub', commit]])
    for (let length = 0; length < index.length - 20; length += 7)
      expect(() => gitlinksIn(index.subarray(0, length))).not.toThrow()
  }
  expect(gitlinksIn(Buffer.from('not an index at all'))).toBeNull()
})
