import { execFile } from 'node:child_process'
import { access, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, test, type TestContext } from 'vitest'

const execute = promisify(execFile)
const orangery = resolve(import.meta.dirname, '../../bin/orangery')

/** Why a filesystem of this kind cannot be had here; null where it can. */
async function missing(kernel: string, device: string, ...programs: string[]): Promise<string | null> {
  if (process.getuid?.() !== 0) return 'only root may mount an image'
  const known = await readFile('/proc/filesystems', 'utf8').catch(() => '')
  if (!new RegExp(`\\t${kernel}$`, 'm').test(known)) return `the kernel has no ${kernel}`
  if (
    await access(device).then(
      () => false,
      () => true,
    )
  )
    return `there is no ${device}`
  for (const program of programs)
    if (
      await execute('sh', ['-c', `command -v ${program}`]).then(
        () => false,
        () => true,
      )
    )
      return `${program} is not installed`
  return null
}

/** Runs a script in a mount namespace of its own, beside an image that was made and mounted for it. */
async function within(context: TestContext, prepare: string, script: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'orangery-filesystem-'))
  try {
    await mkdir(join(folder, 'mounted'))
    const mounted = `cd '${folder}'; { ${prepare}; } >&2 || exit 99; trap 'cd /; umount "${folder}/mounted"' EXIT`
    const env = { ...process.env, ORANGERY: orangery, ORANGERY_DATA_DIR: join(folder, 'data'), HOME: folder }
    const body = `${mounted}\nset -e\n${script}`
    const { stdout } = await execute('unshare', ['-m', 'sh', '-c', body], { env }).catch(
      (error: { code?: number; stderr?: string }) => {
        if (error.code !== 99) throw error
        return context.skip(`it cannot be mounted here: ${error.stderr?.trim().split('\n').at(-1)}`)
      },
    )
    return stdout
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const newest = `id=$("$ORANGERY" changeset list --json | grep -o '"id": *"[^"]*"' | head -1 | cut -d'"' -f4)`

test('where files can be cloned, a clone takes disk only for what changes, and lands and is undone like any other', async (context) => {
  const why = await missing('xfs', '/dev/loop-control', 'mkfs.xfs')
  if (why !== null) return context.skip(why)
  const said = await within(
    context,
    'truncate -s 320M image && mkfs.xfs -q -m reflink=1 image && mount -o loop image mounted',
    `export ORANGERY_DATA_DIR="$PWD/mounted/data"; mkdir mounted/project; cd mounted/project
    head -c 30000000 /dev/urandom > large; echo one > file; sync -f .
    used() { sync -f .; df --output=used -k . | tail -1; }
    before=$(used)
    "$ORANGERY" run --changeset clone -- sh -c 'echo two > file' 2>/dev/null
    echo "grew $(( $(used) - before ))"
    ${newest}
    "$ORANGERY" agent show "$id"
    "$ORANGERY" changeset apply "$id" --all >/dev/null; echo "landed $(cat file)"
    "$ORANGERY" changeset undo "$id" >/dev/null; echo "back $(cat file)"`,
  )
  expect(said).toContain('clone, reflink-copy')
  expect(Number(/grew (\d+)/.exec(said)?.[1])).toBeLessThan(10_000)
  expect(said).toMatch(/landed two\nback one\n$/)
})

test('where case does not count and modes are not kept, what was written under another spelling lands in the file it is', async (context) => {
  const why = await missing('fuseblk', '/dev/fuse', 'mkntfs', 'lowntfs-3g')
  if (why !== null) return context.skip(why)
  const said = await within(
    context,
    'truncate -s 50M image && mkntfs -q -F image && lowntfs-3g -o ignore_case image mounted',
    `mkdir mounted/project; cd mounted/project; echo one > readme; echo keep > keep
    test "$(cat README)" = one
    "$ORANGERY" run -- sh -c 'cat README; echo two > ReadMe; echo new > New; rm KEEP' 2>/dev/null
    ${newest}
    "$ORANGERY" changeset apply "$id" --all >/dev/null
    echo "landed $(ls | tr '\\n' ' ')$(cat readme)"
    "$ORANGERY" changeset undo "$id" >/dev/null
    echo "back $(ls | tr '\\n' ' ')$(cat readme)"`,
  )
  expect(said).toBe('one\nlanded new readme two\nback keep readme one\n')
})

test('where case does not count, one folder is one root however it is spelled: none lies in another, and none is landed in under an agent', async (context) => {
  const why = await missing('fuseblk', '/dev/fuse', 'mkntfs', 'lowntfs-3g')
  if (why !== null) return context.skip(why)
  const said = await within(
    context,
    'truncate -s 50M image && mkntfs -q -F image && lowntfs-3g -o ignore_case image mounted',
    `mkdir -p mounted/project/part; cd mounted/project; echo one > file
    "$ORANGERY" run --dir . --dir ../PROJECT/part -- true 2>&1 | grep -o 'PROJECT/part lies inside'
    "$ORANGERY" run -- sh -c 'echo two > file' 2>/dev/null
    ${newest}
    "$ORANGERY" run --dir ../PROJECT -- sh -c 'pwd | grep -o PROJECT; sleep 300' 2>/dev/null > ../said &
    until grep -q PROJECT ../said; do sleep 0.1; done
    "$ORANGERY" changeset apply "$id" --all >/dev/null 2>&1 || echo "refused $?"
    cat file
    "$ORANGERY" dispatch kill "$("$ORANGERY" dispatch list --json | grep -o '"id": *"[^"]*"' | head -1 | cut -d'"' -f4)" >/dev/null; wait
    "$ORANGERY" changeset apply "$id" --all >/dev/null; cat file`,
  )
  expect(said).toBe('PROJECT/part lies inside\nrefused 75\none\ntwo\n')
})

test('a sandbox for which there is no room is told as that, with a way out, and leaves nothing behind', async (context) => {
  if (process.getuid?.() !== 0) context.skip('only root may mount an image')
  const script = `
    export ORANGERY_DATA_DIR="$PWD/mounted/data"
    git init -q -b main repo; head -c 5000000 /dev/urandom > repo/large
    git -C repo add large; git -C repo -c user.name=u -c user.email=u@v commit -qm large
    $ORANGERY worktree create --repo repo --name first >&2
    git -C repo for-each-ref > before
    $ORANGERY agent start --worktree first 2>&1 || echo "code $?"
    git -C repo for-each-ref | cmp - before && echo same`
  const told = await within(context, 'mount -t tmpfs -o size=9m none mounted', script)
  expect(told).toMatch(/^orangery: .*no space is left.*\n\s*hint: Free some space[^]*\ncode 73\nsame\n$/i)
})
