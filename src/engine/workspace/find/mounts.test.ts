import { expect, test } from 'vitest'
import { parseMounts, placeOnDevice } from './mounts.ts'

test('a folder is known by its place on its filesystem, whichever mount shows it', () => {
  const mounts = parseMounts(
    [
      '20 1 8:1 / / rw - ext4 /dev/a rw',
      '21 20 8:2 / /home rw - ext4 /dev/b rw',
      '22 20 8:2 /ann/work/sub /mnt/my\\040alias rw - ext4 /dev/b rw',
      '23 20 8:1 /srv /mnt/covered rw - ext4 /dev/a rw',
      '24 20 0:40 / /mnt/covered rw - tmpfs none rw',
    ].join('\n'),
  )
  expect(placeOnDevice('/home/ann/work', mounts)).toEqual({ device: '8:2', path: '/ann/work' })
  expect(placeOnDevice('/mnt/my alias/deep', mounts)).toEqual({ device: '8:2', path: '/ann/work/sub/deep' })
  expect(placeOnDevice('/mnt/my alias', mounts)).toEqual({ device: '8:2', path: '/ann/work/sub' })
  expect(placeOnDevice('/home', mounts)).toEqual({ device: '8:2', path: '/' })
  expect(placeOnDevice('/mnt/coveredless', mounts)).toEqual({ device: '8:1', path: '/mnt/coveredless' })
  expect(placeOnDevice('/mnt/covered/a', mounts)).toEqual({ device: '0:40', path: '/a' })
  expect(placeOnDevice('/', mounts)).toEqual({ device: '8:1', path: '/' })
  expect(placeOnDevice('/home', [])).toBeNull()
})
