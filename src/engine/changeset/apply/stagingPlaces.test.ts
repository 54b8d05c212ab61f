import { expect, test } from 'vitest'
import type { BytePath } from '../bytePath.ts'
import { closedFolder, stagingPlaces } from './stagingPlaces.ts'
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
