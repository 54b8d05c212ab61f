import { expect, test } from 'vitest'
import { tryGit } from '../../base/git.ts'
import { packOwners } from './packOwners.ts'
import { Bench } from '../testing.ts'

const day = 24 * 60 * 60 * 1000

test('what only a forgotten changeset held goes from the store; what any other one needs stays, for undo too', async () => {
  await using bench = await Bench.make()
  await bench.user('seq 20 > shared; mkdir deep; echo d > deep/d; echo landed > landed')
  const { changesets } = bench
  const gone = await bench.dispatch('echo "only here" > alone; echo D > deep/d; seq 20 | tac > shared')
  const kept = await bench.dispatch('echo mine > other; echo D > deep/d; echo more >> landed')
  const applied = await bench.dispatch('seq 99 > landed')
  await changesets.apply(applied.id, { all: true, include_ignored: false }, 'me')
  const owners = await packOwners(bench.layout, gone.workspace.repoId)
  expect(new Set(owners.values())).toEqual(new Set([gone.id, kept.id, applied.id]))
  const gitDir = bench.layout.objects(gone.workspace.repoId)
  const isThere = async (text: string) => {
    const oid = (await tryGit(['hash-object', '--stdin'], { gitDir, input: text })).stdout.toString().trim()
    return (await tryGit(['cat-file', '-e', oid], { gitDir })).code === 0
  }
  expect(await isThere('only here\n')).toBe(true)
  await changesets.abandon(gone.id, 'me')
  expect(await changesets.expire(Date.now() + 29 * day)).toEqual([])
  expect(await isThere('only here\n')).toBe(true)
  expect(await changesets.expire(Date.now() + 31 * day)).toEqual([gone.id])
  expect(await isThere('only here\n')).toBe(false)
  // Both changesets wrote this one: the other's copy is untouched.
  expect(await isThere('D\n')).toBe(true)
  expect((await changesets.diff(kept.id, {})).text).toContain('+mine')
  await changesets.undo(applied.id, 'me')
  await changesets.apply(kept.id, { all: true, include_ignored: false }, 'me')
  expect(await bench.snapshot()).toContain('other')
  expect((await tryGit(['fsck', '--connectivity-only'], { gitDir })).code).toBe(0)
})
