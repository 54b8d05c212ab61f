import { lstat, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { makeDispatchId, type RepoId } from '../../../shared/ids.ts'
import { readFrozenRefs } from '../../base/frozenRefs.ts'
import { git } from '../../base/git.ts'
import { run } from '../../base/process.ts'
import type { Workspace, WorkspaceRoot } from '../../base/workspace.ts'
import { hasWork } from '../end/dispose.ts'
import { gitText, Ground } from '../fixture.ts'
import { freezeRefs } from './freezeRefs.ts'
import { holdsMore } from '../end/leftover.ts'

let ground: Ground
let repo: string
let mount: Extract<WorkspaceRoot['mount'], { kind: 'overlay' }>
let workspace: Workspace
beforeEach(async () => {
  ground = await Ground.make()
  repo = await ground.repo('repo')
  const dir = await ground.folder('sandbox')
  const lower = join(repo, '.git')
  mount = { kind: 'overlay', lower, upper: join(dir, 'upper'), work: join(dir, 'work') }
  await mkdir(mount.upper)
  workspace = {
    id: makeDispatchId(new Date(), Buffer.from('aa')),
    repoId: 'repo' as RepoId,
    strategy: 'worktree',
    driver: 'kernel-overlay',
    dir,
    roots: [{ path: lower, target: lower, name: '.git', role: 'git', access: 'rw', mount }],
    createdAtMs: Date.now(),
  }
})
afterEach(() => ground[Symbol.asyncDispose]())

const layer = (...path: string[]) => join(mount.upper, ...path)
const isCut = async (folder: string) =>
  (await run('getfattr', ['-n', 'user.overlay.opaque', layer(folder)])).code === 0
const packed = () => readFile(layer('packed-refs'), 'utf8')

test('the layer of a worktree agent gets the refs of the repository, without those of other agents', async () => {
  const [own, other] = [workspace.id, makeDispatchId(new Date(), Buffer.from('bb'))].map(
    (id) => `agency/sandbox-${id}`,
  )
  const created = [`heads/${own}`, `heads/${other}`, 'orangery/archive/x', 'heads/agency/sandbox-of-mine']
  for (const ref of created) await git(['-C', repo, 'update-ref', `refs/${ref}`, 'main'])
  await git(['-C', repo, 'symbolic-ref', 'refs/heads/alias', 'refs/heads/main'])
  expect(await freezeRefs(workspace)).toEqual([])
  expect([await isCut('refs'), await isCut('logs'), await isCut('worktrees')]).toEqual([true, true, false])
  const main = await gitText(repo, 'rev-parse', 'main')
  expect((await packed()).trimEnd().split('\n')).toEqual([
    '# pack-refs with: sorted ',
    ...['main', own, 'agency/sandbox-of-mine'].map((branch) => `${main} refs/heads/${branch}`).toSorted(),
  ])
  expect(await readFile(layer('refs/heads/alias'), 'utf8')).toBe('ref: refs/heads/main\n')
  // What we laid there is nobody's work, also when the user's refs have moved since.
  await git(['-C', repo, 'branch', 'later'])
  await git(['-C', repo, 'pack-refs', '--all'])
  expect([await hasWork(workspace), await holdsMore(workspace)]).toEqual([false, false])
  await mkdir(layer('refs/tags'))
  await writeFile(layer('refs/tags/own'), `${main}\n`)
  expect([await hasWork(workspace), await holdsMore(workspace)]).toEqual([true, true])
})

test('a later run has the refs as they are by then, but for what the agent made, packed or led elsewhere', async () => {
  await mkdir(join(mount.lower, 'logs/refs'), { recursive: true })
  await writeFile(join(mount.lower, 'logs/refs/stash'), 'log')
  await freezeRefs(workspace)
  expect(await readFile(layer('logs/refs/stash'), 'utf8')).toBe('log')
  const main = await gitText(repo, 'rev-parse', 'main')
  await mkdir(layer('refs/heads/topic'), { recursive: true })
  await writeFile(layer('refs/heads/topic/own'), `${main}\n`)
  // As git does when a branch is deleted that it does not hold.
  await writeFile(layer('packed-refs'), (await packed()).replace('sorted', 'peeled fully-peeled sorted'))
  for (const branch of ['topic', 'later']) await git(['-C', repo, 'branch', branch])
  expect(await freezeRefs(workspace)).toEqual([])
  expect(await packed()).toContain('refs/heads/later\n')
  expect(await packed()).not.toContain('refs/heads/topic\n')
  expect((await readFrozenRefs(mount))?.refs.get('refs/heads/later')).toBe(main)
  // A link of the agent's is not written through.
  const outside = ground.path('outside')
  await writeFile(outside, await packed())
  await rm(layer('packed-refs'))
  await symlink(outside, layer('packed-refs'))
  await git(['-C', repo, 'branch', 'latest'])
  expect(await freezeRefs(workspace)).toEqual([])
  expect((await lstat(layer('packed-refs'))).isSymbolicLink()).toBe(true)
  expect(await readFile(outside, 'utf8')).not.toContain('latest')
  // Nor is one of the repository's followed: it would bring any file of the user's into the layer.
  await rm(join(mount.lower, 'logs/refs/stash'))
  await symlink(outside, join(mount.lower, 'logs/refs/stash'))
  await expect(freezeRefs(workspace)).rejects.toMatchObject({ code: 'workspace.linked_repository' })
})

test('a link that the agent put in the place of its refs is not followed', async () => {
  await freezeRefs(workspace)
  const outside = await ground.folder('outside', 'heads', 'later')
  await writeFile(join(outside, 'file'), 'of the host')
  await rm(layer('refs'), { recursive: true })
  await symlink(ground.path('outside'), layer('refs'))
  await git(['-C', repo, 'branch', 'latest'])
  // What it holds is not looked at, so the agent keeps the refs of the others as it had them.
  expect(await freezeRefs(workspace)).toEqual([])
  expect(await packed()).not.toContain('latest')
})

test('a sandbox from before, and refs kept as reftable, are seen as they are, and that is said', async () => {
  await mkdir(layer('refs'))
  expect(await freezeRefs(workspace)).toEqual([expect.stringContaining('this sandbox was made without')])
  await rm(layer('refs'), { recursive: true })
  await mkdir(join(repo, '.git', 'reftable'))
  expect(await freezeRefs(workspace)).toEqual([expect.stringContaining('reftable')])
  expect(await readFrozenRefs(mount)).toBeNull()
  await expect(lstat(layer('refs'))).rejects.toMatchObject({ code: 'ENOENT' })
})
