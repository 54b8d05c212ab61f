import { readdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { expect, test } from 'vitest'
import { run } from '../../src/engine/base/process.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'

const all = { all: true, include_ignored: true }
const names = ['..', '.', '.git', '../evil', '/evil', '.GIT', 'a/../../evil']

/** A commit whose tree has one file under a name that git itself would never write. */
const madeByHand = (name: string, branch: string) => `
  blob=$(echo evil | git hash-object -w --stdin)
  tree=$(perl -e 'print "100644 $ARGV[0]\\0", pack("H*", $ARGV[1])' '${name}' $blob | git hash-object -t tree -w --stdin --literally)
  git update-ref refs/heads/${branch} $(git commit-tree -m ${branch} -p HEAD $tree)`

test('a commit whose tree leads out by its names reaches no repository of the user and no file', async () => {
  await using bench = await Bench.make()
  const identity = 'git config user.name A; git config user.email a@x'
  await bench.user(`git init -q -b main; ${identity}; echo 1 > a; git add .; git commit -qm first`)
  const around = await readdir(dirname(bench.root))
  for (const [at, name] of [...names, 'plain'].entries()) {
    const { id } = await bench.dispatch(`${identity}; ${madeByHand(name, `made${at}`)}; echo ${at} > a`)
    const { notes = [], applied } = await bench.changesets.apply(id, all, 'anna')
    expect(applied.map(({ path }) => path)).toEqual(['a'])
    const { stdout } = await run('git', ['for-each-ref', `refs/orangery/${id}`], { cwd: bench.root })
    // The control: the same by hand with a name like any other is taken over.
    const isTaken = stdout.toString().includes(`made${at}`)
    expect([name, isTaken, notes.some((note) => note.includes('not imported'))]).toEqual([
      name,
      name === 'plain',
      name !== 'plain',
    ])
  }
  expect(await readdir(dirname(bench.root))).toEqual(around)
  expect((await run('git', ['fsck', '--strict'], { cwd: bench.root })).code).toBe(0)
})
