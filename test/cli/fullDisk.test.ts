import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'
import { leftovers } from './traces.ts'

/** A data folder of 80 MB, an agent that writes more than that, and then a larger disk. */
const script = `
set -e
mount -t tmpfs -o size=80m,mode=700 tmpfs "$ORANGERY_DATA_DIR"
"$0" run -- sh -c 'echo small > small.txt; dd if=/dev/zero of=big bs=1M count=200 status=none' >&2 || echo "code $?"
"$0" dispatch list >/dev/null && echo "listed while full"
# Only that: the owner of the mount, as the table of mounts has him, is nobody in a namespace of an ordinary user.
mount --options-mode ignore -o remount,size=400m "$ORANGERY_DATA_DIR"
id=$("$0" dispatch list | sed -n '2s/ .*//p')
"$0" dispatch status "$id" --json | grep -o '"status": "[a-z]*"' | head -1
"$0" changeset show "$id" --json | grep -o '"path": "[^"]*"'
"$0" dispatch events "$id" --verify
`

/** Null where nobody may mount anything. */
function inOwnMounts(place: Place, body: string): { stdout: string; stderr: string } | null {
  const [launcher = ''] = place.command
  const alone = process.getuid?.() === 0 ? ['-m'] : ['-Urm']
  const ran = spawnSync('unshare', [...alone, 'sh', '-c', body, launcher], {
    cwd: place.folder,
    env: place.env,
    encoding: 'utf8',
  })
  return /unshare failed|mount: .*permission denied/i.test(ran.stderr) ? null : ran
}

test('an agent that fills the disk loses no work: once there is room it waits for review', async (context) => {
  using place = new Place('launcher')
  const ran = inOwnMounts(place, script)
  if (ran === null) return context.skip('no mounts of our own here')
  const lines = ran.stdout.trim().split('\n')
  // Ours where the row could not be written any more, else the command's own.
  expect(lines[0]).toMatch(/^code (?:73|1)$/)
  expect(lines.slice(1, 5)).toEqual([
    'listed while full',
    '"status": "failed"',
    '"path": "big"',
    '"path": "small.txt"',
  ])
  expect(lines[5]).toMatch(/^\d+ events, whole$/)
  expect(ran.stderr).toMatch(/No space left on device/)
  expect(ran.stderr).not.toMatch(/^ {4}at /m)
  expect(readdirSync(place.folder)).toEqual([])
  expect(await leftovers(place.home)).toEqual([])
})

/** A repository whose own folder has no block left when the commit is to be made. */
const commitScript = `
set -e
git init -q -b main; git config user.name U; git config user.email u@x
echo a > a; git add a; git commit -qm one
"$0" run -q -- sh -c 'echo b > a; seq 9 > n' >&2
id=$("$0" dispatch list | sed -n '2s/ .*//p')
cp -a .git ../saved
mount -t tmpfs -o size=4m,mode=700 tmpfs .git
cp -a ../saved/. .git
dd if=/dev/zero of=.git/full bs=4k status=none 2>/dev/null || true
"$0" changeset apply "$id" --all --commit main --message two >&2 || echo "code $?"
git log --format=%s main
rm .git/full
"$0" changeset apply "$id" --all --commit main --message two >/dev/null
git log --format=%s main; git status --short; cat a
`

test('a commit for which the disk is full ends with 73 and what to do, and is made once there is room', async (context) => {
  using place = new Place('launcher')
  const ran = inOwnMounts(place, commitScript)
  if (ran === null) return context.skip('no mounts of our own here')
  expect(ran.stdout.trim().split('\n'), ran.stderr).toEqual(['code 73', 'one', 'two', 'one', 'b'])
  expect(ran.stderr).toMatch(
    /^orangery: [^\n]*No space left on device[^\n]*\n {2}hint: [^\n]*Free some space[^\n]*$/m,
  )
  expect(ran.stderr).not.toMatch(/^ {4}at /m)
})
