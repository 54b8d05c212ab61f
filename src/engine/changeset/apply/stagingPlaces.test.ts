import { expect, test } from 'vitest'
import type { BytePath } from '../bytePath.ts'
import { closedFolder, immutableFile, stagingPlaces } from './stagingPlaces.ts'
import type { Operation } from './steps.ts'

const at = (root: string, path: string): Operation => ({
  kind: 'put',
  root,
  path: path as BytePath,
  before: null,
  after: null,
  identity: null,
})

test('contents wait in the root, and where that is closed in the innermost folder with all that changes', async () => {
  const isWritable = async (folder: string) => folder === '/open'
  const places = (...operations: Operation[]) => stagingPlaces(operations, isWritable)
  expect(await places(at('/open', 'a/b'))).toEqual([])
  expect(await places(at('/closed', 'a/b/c'), at('/closed', 'a/b/d/e'), at('/open', 'x'))).toEqual([
    ['/closed', 'a/b'],
  ])
  expect(await places(at('/closed', 'a/b'), at('/closed', 'ab/c'))).toEqual([])
  expect(await places(at('/closed', 'a/b'), at('/closed', 'c'))).toEqual([])
})

test('of the folders in which something changes, the first that may not be written is told', async () => {
  const codes = new Map([
    ['/root/new', 'ENOENT'],
    ['/root/a/b', 'EACCES'],
  ])
  const refusalOf = async (folder: Buffer) => codes.get(String(folder)) ?? ''
  expect(await closedFolder([at('/root', 'x'), at('/root', 'new/x'), at('/root', 'a/b/c')], refusalOf)).toBe(
    '/root/a/b',
  )
  expect(await closedFolder([at('/root', 'x')], refusalOf)).toBe(null)
})

test('of the files that are replaced, the first immutable one is told, and none that is only read-only', async () => {
  const before = { kind: 'file', oid: '', mode: 0o444, size: 0, sha256: '' } as const
  const codes = new Map([
    ['/root/read-only', 'EACCES'],
    ['/root/immutable', 'EPERM'],
  ])
  const refusalOf = async (file: Buffer) => codes.get(String(file)) ?? ''
  const operations = ['new', 'read-only', 'immutable'].map((path) => ({ ...at('/root', path), before }))
  expect(await immutableFile(operations, refusalOf)).toBe('/root/immutable')
  expect(await immutableFile(operations.slice(0, 2), refusalOf)).toBe(null)
})
