import { appendFile, chmod, mkdir, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import type { DispatchId } from '../../shared/ids.ts'
import { git } from '../base/git.ts'
import { createRepoLock } from '../base/lock.ts'
import { run } from '../base/process.ts'
import { fingerprint, gitText, makeFeature, type Feature } from './fixture.ts'
import { createWorktree, enterInvocation, prepareWorkspace, identifyProject } from './index.ts'
import { assertSandboxPath } from './find/pathSafety.ts'
import { creationSteps } from './make/startAgent.ts'
import { worktreeSteps } from './make/worktree.ts'

let { ground, repo, worktree, repoId, start, branches } = {} as Feature
/** Set at the end of a test that has proven to leave everything as it found it: the next may use it too. */
let reusable = false
beforeEach(async () => {
  if (reusable) {
    reusable = false
    return
  }
  await ground?.[Symbol.asyncDispose]()
  ;({ ground, repo, worktree, repoId, start, branches } = await makeFeature())
})
afterAll(() => ground[Symbol.asyncDispose]())

const listInvocations = () => readdir(ground.layout.invocations(repoId())).catch((): string[] => [])

test('Test: sandbox never resolves to integration tree', async () => {
  const invocations = await listInvocations()
  for (const collision of [
    worktree.tree_path,
    join(worktree.tree_path, 'inside'),
    ground.layout.worktree(repoId(), worktree.worktree_id),
  ]) {
    const forced = { ...ground.layout, sandboxTree: () => collision }
    await expect(start({ layout: forced })).rejects.toMatchObject({ code: 'workspace.sandbox_path_unsafe' })
  }
  expect(await listInvocations()).toEqual(invocations)
  expect(await gitText(repo, 'worktree', 'list', '--porcelain')).not.toContain('sandbox')
  reusable = true
})

test('Invariant 3: No sandbox may ever resolve to an integration tree path, also by a link in the data folder', async () => {
  await rm(ground.layout.sandboxes(repoId()), { recursive: true, force: true })
  await symlink(worktree.tree_path, ground.layout.sandboxes(repoId()))
  await expect(start()).rejects.toMatchObject({ code: 'workspace.sandbox_path_unsafe' })
  expect(await listInvocations()).toEqual([])
})

test('a path below any folder that carries an integration marker is no place for a sandbox', async () => {
  const elsewhere = await ground.folder('elsewhere', '.agency')
  await writeFile(join(elsewhere, 'INTEGRATION_MARKER'), '')
  await expect(
    assertSandboxPath(ground.path('elsewhere', 'a', 'tree'), worktree.tree_path),
  ).rejects.toMatchObject({
    code: 'workspace.sandbox_path_unsafe',
  })
  reusable = true
})

test('Test: integration marker enforcement', async () => {
  await rm(join(worktree.tree_path, '.agency', 'INTEGRATION_MARKER'))
  await expect(start()).rejects.toMatchObject({ code: 'workspace.not_integration_tree', exitCode: 65 })
  await expect(start({ worktree: repo })).rejects.toMatchObject({ code: 'workspace.not_integration_tree' })
  expect(await listInvocations()).toEqual([])
})

test('a symlink in place of the marker is not a marker', async () => {
  const marker = join(worktree.tree_path, '.agency', 'INTEGRATION_MARKER')
  await rm(marker)
  await symlink('/etc/hostname', marker)
  await expect(start()).rejects.toMatchObject({ code: 'workspace.not_integration_tree' })
})

test('Test: sandbox marker written', async () => {
  const meta = await start()
  expect(await readFile(join(meta.sandbox_path, '.agency', 'SANDBOX_MARKER'), 'utf8')).toBe(
    '# This directory is a sandbox worktree.\n# Runners may execute here.\n',
  )
  expect(await readdir(join(worktree.tree_path, '.agency'))).toEqual(['INTEGRATION_MARKER'])
})

describe('Test: cleanup on partial failure', () => {
  test.each(creationSteps)(
    'a failure after %s leaves no worktree, no branch and no meta',
    async (failing) => {
      const before = { worktrees: await gitText(repo, 'worktree', 'list'), branches: await branches() }
      const failure = new Error(`injected after ${failing}`)
      const attempt = start({
        afterStep: (step) => {
          if (step === failing) throw failure
        },
      })
      await expect(attempt).rejects.toBe(failure)
      expect(await gitText(repo, 'worktree', 'list')).toBe(before.worktrees)
      expect(await branches()).toBe(before.branches)
      expect(await listInvocations()).toEqual([])
      expect(await readdir(ground.layout.sandboxes(repoId())).catch(() => [])).toEqual([])
      await using free = await createRepoLock(ground.layout).tryAcquire(repoId())
      expect(free).not.toBeNull()
      reusable = true
    },
  )

  test('Invariant 4: If sandbox creation fails, invocation creation must abort; a marker that cannot be written takes the worktree and the branch back', async () => {
    await writeFile(join(repo, '.agency'), 'a file of this name is in the way')
    await git(['-C', repo, 'add', '-A'])
    await git(['-C', repo, 'commit', '-q', '-m', 'in the way'])
    await git([
      '-C',
      worktree.tree_path,
      'update-ref',
      `refs/heads/${worktree.branch}`,
      await gitText(repo, 'rev-parse', 'HEAD'),
    ])
    await expect(start()).rejects.toMatchObject({ code: 'workspace.marker_blocked' })
    expect(await branches()).not.toContain('sandbox')
    expect(await listInvocations()).toEqual([])
  })

  test('a sandbox folder made read-only fails creation as a whole', async (context) => {
    if (process.getuid?.() === 0) return context.skip('root may write where nobody may')
    await mkdir(ground.layout.sandboxes(repoId()), { recursive: true })
    await chmod(ground.layout.sandboxes(repoId()), 0o500)
    await expect(start()).rejects.toMatchObject({ code: 'EACCES' })
    expect(await listInvocations()).toEqual([])
    await chmod(ground.layout.sandboxes(repoId()), 0o700)
  })

  test('clean-up that fails is logged, and the original error still stands', async () => {
    const failure = new Error('the first error')
    const reports: string[] = []
    const attempt = start({
      report: (what) => {
        reports.push(what)
      },
      afterStep: async (step) => {
        if (step !== 'worktree_add') return
        // Somebody commits on the branch meanwhile: it is no longer only ours to delete.
        const [id] = await listInvocations()
        const tree = ground.layout.sandboxTree(repoId(), id as DispatchId)
        await git(['-C', tree, 'commit', '-q', '--allow-empty', '-m', 'meanwhile'])
        throw failure
      },
    })
    await expect(attempt).rejects.toBe(failure)
    expect(reports).toEqual([expect.stringMatching(/^branch agency\/sandbox-/)])
    expect(await listInvocations()).toEqual([])
  })

  test('clean-up failures reach the log of the data folder', async () => {
    const attempt = start({
      afterStep: async (step) => {
        if (step !== 'worktree_add') return
        const [id] = await listInvocations()
        await git([
          '-C',
          ground.layout.sandboxTree(repoId(), id as DispatchId),
          'commit',
          '-q',
          '--allow-empty',
          '-m',
          'x',
        ])
        throw new Error('first')
      },
    })
    await expect(attempt).rejects.toThrow('first')
    const [line] = (await readFile(ground.layout.log, 'utf8')).trim().split('\n')
    expect(JSON.parse(line!)).toMatchObject({ level: 40, msg: expect.stringContaining('clean-up of branch') })
  })

  test('a branch that was there before is refused and never deleted', async () => {
    const id = '20260128120500-b7c9' as DispatchId
    await git(['-C', repo, 'branch', `agency/sandbox-${id}`])
    await expect(start({ id })).rejects.toMatchObject({ code: 'workspace.branch_taken' })
    expect(await branches()).toContain(`agency/sandbox-${id}`)
    expect(await listInvocations()).toEqual([])
  })

  test.each(worktreeSteps)('worktree create: a failure after %s leaves nothing', async (failing) => {
    const before = { worktrees: await gitText(repo, 'worktree', 'list'), branches: await branches() }
    const folders = await readdir(ground.layout.worktrees(repoId()))
    const attempt = createWorktree({
      layout: ground.layout,
      repo,
      name: 'other',
      afterStep: (step) => {
        if (step === failing) throw new Error('injected')
      },
    })
    await expect(attempt).rejects.toThrow('injected')
    expect(await gitText(repo, 'worktree', 'list')).toBe(before.worktrees)
    expect(await branches()).toBe(before.branches)
    expect(await readdir(ground.layout.worktrees(repoId()))).toEqual(folders)
    reusable = true
  })
})

test('Invariant 2: Every agent invocation gets its own sandbox worktree; Multiple sandboxes can be created per integration worktree, and the Integration tree remains unchanged', async () => {
  const before = await fingerprint(worktree.tree_path)
  const metas = await Promise.all([start(), start(), start()])
  expect(new Set(metas.map((meta) => meta.sandbox_path)).size).toBe(3)
  for (const meta of metas) {
    expect(await gitText(meta.sandbox_path, 'symbolic-ref', '--short', 'HEAD')).toBe(meta.sandbox_branch)
  }
  expect(await fingerprint(worktree.tree_path)).toBe(before)
})

test('Invariant 6: All state is inspectable on disk; Invocation meta is canonical and complete', async () => {
  const meta = await start({ name: 'arch-agent', runner: 'claude', mode: 'headed' })
  const id = meta.invocation_id
  const written = JSON.parse(await readFile(ground.layout.invocationMeta(repoId(), id), 'utf8')) as object
  expect(written).toMatchObject({
    schema_version: '1.0',
    invocation_id: id,
    invocation_name: 'arch-agent',
    integration_worktree_id: worktree.worktree_id,
    sandbox_path: ground.path('data', 'repos', worktree.repo_id, 'sandboxes', id, 'tree'),
    sandbox_branch: `agency/sandbox-${id}`,
    base_commit: await gitText(repo, 'rev-parse', worktree.branch),
    runner: 'claude',
    mode: 'headed',
    status: 'starting',
    started_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
  })
  expect(id).toMatch(/^\d{14}-[0-9a-f]{4}$/)
  expect(worktree.branch).toBe(`agency/feature-${worktree.worktree_id.slice(-4)}`)
})

test('N2: No scaffold directories in sandbox; the tree holds git, the marker and the project, and nothing else', async () => {
  const meta = await start()
  expect((await readdir(meta.sandbox_path)).sort()).toEqual(['.agency', '.git', 'a.txt', 'src'])
  expect(await readdir(ground.layout.sandbox(repoId(), meta.invocation_id))).toEqual(['tree'])
})

test('N1: Runner fields are inert; creation does not branch on runner, mode and status', async () => {
  const meta = await start({ runner: 'no such runner', mode: 'headed' })
  expect(meta).toMatchObject({ runner: 'no such runner', mode: 'headed', status: 'starting' })
})

test('the markers show neither in git status, nor in a diff, nor in a commit of everything', async () => {
  const meta = await start()
  for (const tree of [meta.sandbox_path, worktree.tree_path]) {
    // The user's own git, with the user's configuration.
    expect((await run('git', ['-C', tree, 'status', '--porcelain', '-uall'])).stdout.toString()).toBe('')
    await git(['-C', tree, 'add', '-A'])
    expect(await gitText(tree, 'diff', '--cached', '--name-only')).toBe('')
  }
  expect(await gitText(repo, 'status', '--porcelain', '-uall')).toBe('')
})

test('what the user had in info/exclude stays, and the lines are added once', async () => {
  const exclude = join(repo, '.git', 'info', 'exclude')
  await writeFile(exclude, '*.mine')
  await start()
  await start()
  expect(await readFile(exclude, 'utf8')).toBe(
    '*.mine\n/.agency/INTEGRATION_MARKER\n/.agency/SANDBOX_MARKER\n',
  )
})

test('a repository that tracks a marker of its own is refused', async () => {
  await mkdir(join(repo, '.agency'))
  await writeFile(join(repo, '.agency', 'INTEGRATION_MARKER'), 'fake')
  await git(['-C', repo, 'add', '-f', '.agency/INTEGRATION_MARKER'])
  await git(['-C', repo, 'commit', '-q', '-m', 'fake marker'])
  await expect(createWorktree({ layout: ground.layout, repo, name: 'other' })).rejects.toMatchObject({
    code: 'workspace.marker_tracked',
  })
})

test('a tracked ignore file that would show a marker is refused, by its line, and nothing is left', async () => {
  await writeFile(join(repo, '.gitignore'), 'x\n!.agency/**\n')
  await git(['-C', repo, 'add', '-A'])
  await git(['-C', repo, 'commit', '-q', '-m', 'show it'])
  const refs = await gitText(repo, 'for-each-ref')
  await expect(createWorktree({ layout: ground.layout, repo, name: 'other' })).rejects.toMatchObject({
    code: 'workspace.marker_shown',
    exitCode: 65,
    message: expect.stringContaining('!.agency/** (.gitignore:2)') as string,
  })
  expect(await gitText(repo, 'for-each-ref')).toBe(refs)
  expect(await gitText(repo, 'worktree', 'list', '--porcelain')).not.toContain('other')
})

test('an ignore line by which the user shows himself a marker is told, and one in info/exclude is overruled again', async () => {
  const exclude = join(repo, '.git/info/exclude')
  await appendFile(exclude, '!.agency/*\n')
  const shown = () => gitText(worktree.tree_path, 'status', '--porcelain', '-uall')
  expect(await shown()).toContain('MARKER')
  expect((await start()).notes.join()).not.toContain('git shows')
  expect(await shown()).toBe('')
  await writeFile(join(worktree.tree_path, '.gitignore'), '!.agency/*\n')
  expect((await start()).notes.join()).toContain('because of the line !.agency/* (.gitignore:1)')
})

test('the lock is held from the first folder to the commit point and at no other time', async () => {
  const held: boolean[] = []
  await start({
    afterStep: async () => {
      await using free = await createRepoLock(ground.layout).tryAcquire(repoId())
      held.push(free === null)
    },
  })
  expect(held).toEqual(creationSteps.map(() => true))
  await using free = await createRepoLock(ground.layout).tryAcquire(repoId())
  expect(free).not.toBeNull()
})

test('Invariant 5: No fallback execution paths exist; nothing runs in a tree without the sandbox marker, or with an integration marker', async () => {
  const meta = await start()
  const enter = () => enterInvocation(ground.layout, repoId(), meta.invocation_id, {})
  expect((await enter()).roots.map((root) => root.role)).toEqual(['project', 'git'])
  await writeFile(join(meta.sandbox_path, '.agency', 'INTEGRATION_MARKER'), '')
  await expect(enter()).rejects.toMatchObject({ code: 'workspace.sandbox_marker', exitCode: 77 })
  await rm(join(meta.sandbox_path, '.agency'), { recursive: true })
  await expect(enter()).rejects.toMatchObject({ code: 'workspace.sandbox_marker' })
})

test('Invariant 1: Integration worktrees are never modified by agents; no workspace writes one directly', async () => {
  const project = await identifyProject([join(worktree.tree_path, 'src')])
  const attempt = () =>
    prepareWorkspace({
      id: '20260128120500-b7c9' as DispatchId,
      project,
      strategy: 'none',
      driver: 'direct',
      layout: ground.layout,
      name: null,
      runner: 'command',
      mode: 'headless',
    })
  await expect(attempt()).rejects.toMatchObject({ code: 'workspace.integration_tree', exitCode: 77 })
  // Its place alone says what it is: `git clean -fdx` takes the marker away.
  await rm(join(worktree.tree_path, '.agency'), { recursive: true })
  await expect(attempt()).rejects.toMatchObject({ code: 'workspace.integration_tree', exitCode: 77 })
})

test('uncommitted work of the user is not in the sandbox, and creation says so', async () => {
  await writeFile(join(worktree.tree_path, 'draft.txt'), 'not yet')
  const meta = await start()
  expect(meta.notes).toEqual([expect.stringContaining('draft.txt')])
  expect(await readdir(meta.sandbox_path)).not.toContain('draft.txt')
})
