import { expect, test } from 'vitest'
import { run } from '../../src/engine/base/process.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'

const logOf = async (cwd: string, ref: string) =>
  (await run('git', ['log', '--format=%s', ref], { cwd })).stdout.toString().trim()

test.each([
  'git gc -q',
  'git repack -adq',
  'git repack -dq',
  'git gc -q --prune=now; rm -rf .git/objects/??',
])("an agent's commits are imported whatever it did with its packs and the user's (%s)", async (tidy) => {
  await using bench = await Bench.make()
  await bench.user(`git init -q -b main; git config user.name U; git config user.email u@x
      seq 9 > a; git add .; git commit -qm first; git gc -q`)
  const { id } = await bench.dispatch(`git config user.name A; git config user.email a@x
      echo x >> a; git commit -qam second; ${tidy}; git fsck --strict`)
  const changeset = await bench.changesets.get(id)
  expect((changeset.dropped ?? []).filter(({ why }) => why.includes('import'))).toEqual([])
  expect(changeset.commits).toHaveLength(1)
  const commit = { branch: 'own', own: true, hooks: false }
  await bench.changesets.apply(id, { all: true, include_ignored: true, commit }, 'anna')
  expect(await logOf(bench.root, 'own')).toBe('second\nfirst')
})
