import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { RootModes } from '../../../shared/spec.ts'
import type { Contract } from '../../base/contract.ts'
import { withinParent } from './childRights.ts'

test('a child reads what its parent may only read, by whatever name, and never sees what is hidden from it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'orangery-child-'))
  await using _ = { [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) }
  const [open = '', read = '', hidden = ''] = ['open', 'read', 'hidden'].map((name) => join(folder, name))
  for (const path of [open, join(read, 'inner'), hidden]) await mkdir(path, { recursive: true })
  await symlink(read, join(open, 'link'))
  const withRoots = (roots: readonly string[], rootModes: RootModes) =>
    ({ roots, rootModes, hide: [] }) as unknown as Contract
  const parent = withRoots([open, read, hidden], { [read]: 'ro', [hidden]: 'hidden' })
  const modeOf = async (root: string, asked?: RootModes) =>
    (await withinParent(parent, withRoots([root], asked ?? {}), asked)).rootModes?.[root] ?? 'rw'
  expect(await modeOf(open)).toBe('rw')
  expect(await modeOf(open, { [open]: 'ro' })).toBe('ro')
  expect(await modeOf(read)).toBe('ro')
  expect(await modeOf(join(read, 'inner'))).toBe('ro')
  expect(await modeOf(join(open, 'link'))).toBe('ro')
  await expect(modeOf(read, { [read]: 'rw' })).rejects.toThrow('the parent may only read it')
  await expect(modeOf(hidden)).rejects.toThrow("outside the parent's roots")
})

test('a child goes on with the roots around its own, its grandparent’s too, whose configs narrow it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'orangery-child-'))
  await using _ = { [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) }
  const [nested, deeper] = [join(folder, 'nested'), join(folder, 'nested', 'deeper')]
  await mkdir(deeper, { recursive: true })
  const withRoots = (...roots: readonly string[]) => ({ roots, hide: [] }) as unknown as Contract
  const first = withRoots(folder)
  const child = await withinParent(first, withRoots(nested), undefined)
  expect(child.around).toEqual([folder])
  expect((await withinParent(child, withRoots(deeper), undefined)).around).toEqual([nested, folder])
  // The control: in the same roots the same files hold.
  expect(await withinParent(first, withRoots(folder), undefined)).toEqual(first)
})
