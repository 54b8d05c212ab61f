import { expect, test } from 'vitest'
import { searchedPlaces } from './searchedPlaces.ts'

const table = (...mounts: readonly (readonly [point: string, type: string])[]) =>
  mounts
    .map(([point, type], index) => `${index} 1 0:${index} / ${point} rw shared:1 - ${type} x rw\n`)
    .join('')

test('each mount of this machine in a searched folder is looked through by itself, and no other', () => {
  const mounts = table(
    ['/', 'ext4'],
    ['/opt', 'nfs4'],
    ['/etc/keys', 'tmpfs'],
    [String.raw`/opt/a\040b`, 'ext4'],
    ['/opt/far', 'nfs4'],
    ['/opt/home', 'fuse.sshfs'],
    ['/usr/local/auto', 'autofs'],
    ['/usr/local/twice', 'nfs4'],
    ['/usr/local/twice', 'xfs'],
    ['/options', 'tmpfs'],
    ['/srv', 'tmpfs'],
  )
  expect(searchedPlaces(mounts)).toEqual({
    etc: ['/etc', '/etc/keys'],
    software: ['/opt', '/usr/local', '/opt/a b', '/usr/local/twice'],
    unsearched: ['/opt/far', '/opt/home', '/usr/local/auto'],
  })
})

test('a mount at a path that is no text is not given to who looks', () => {
  const { software, unsearched } = searchedPlaces(table(['/opt/\xff', 'ext4']))
  expect(software).toEqual(['/opt', '/usr/local'])
  expect(unsearched).toHaveLength(1)
})
