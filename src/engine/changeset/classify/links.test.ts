import { expect, test } from 'vitest'
import { fromText } from '../bytePath.ts'
import { followLink } from './links.ts'
import { Bench } from '../testing.ts'

const long = 'x'.repeat(256)

test('a link to a name longer than there can be is one that leads nowhere, and the rest is captured and lands', async () => {
  await using bench = await Bench.make()
  await bench.user(`echo a > a; ln -s ${long} CLAUDE.md`)
  const { id } = await bench.dispatch(`echo work > important; ln -s ${long} l; ln -s d/${long}/../x m`)
  const { files } = await bench.changesets.get(id)
  expect(files.map(({ path }) => path)).toEqual(['important', 'l', 'm'])
  const { applied } = await bench.changesets.apply(id, { all: true, include_ignored: false }, 'test')
  expect(applied).toHaveLength(3)
})

test('a link into a folder that nobody may look into never lands, and stands for the name it leads to', async () => {
  const homes = [{ name: '/r', paths: ['/r'] }]
  const link = { root: '/r', path: fromText('sub/CLAUDE.md'), target: '../closed/a/../notes' }
  const followed = await followLink(link, homes, async (_root, path) => {
    if (path.startsWith('closed/')) throw Object.assign(new Error('EACCES'), { code: 'EACCES' })
    return null
  })
  expect(followed).toMatchObject({ stays: false, through: [{ root: '/r', path: 'closed/notes' }] })
  const failing = followLink(link, homes, async () => {
    throw Object.assign(new Error('EIO'), { code: 'EIO' })
  })
  await expect(failing).rejects.toThrow('EIO')
})
