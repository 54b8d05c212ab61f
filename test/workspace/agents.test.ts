import { mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { makeDispatchId, type RepoId } from '../../src/shared/ids.ts'
import { git } from '../../src/engine/base/git.ts'
import { run } from '../../src/engine/base/process.ts'
import { gitText, makeFeature, type Feature } from '../../src/engine/workspace/fixture.ts'
import {
  claimWorkspace,
  createWorktree,
  discardAgent,
  enterInvocation,
  expireArchive,
  findOrphans,
  identifyProject,
  listAgents,
  listArchive,
  listWorktrees,
  prepareWorkspace,
  removeIntegration,
  resolveWorktree,
  restoreArchived,
  startAgent,
} from '../../src/engine/workspace/index.ts'

let { ground, repo, worktree, repoId, start, branches } = {} as Feature
beforeEach(async () => {
  ;({ ground, repo, worktree, repoId, start, branches } = await makeFeature())
})
afterEach(() => ground[Symbol.asyncDispose]())

describe('worktrees', () => {
  test('resolve by name, id and prefix; a taken name is refused', async () => {
    for (const reference of ['feature', worktree.worktree_id, worktree.worktree_id.slice(0, 16)]) {
      expect((await resolveWorktree(ground.layout, reference)).id).toBe(worktree.worktree_id)
    }
    await expect(createWorktree({ layout: ground.layout, repo, name: 'feature' })).rejects.toMatchObject({
      code: 'workspace.name_taken',
      exitCode: 73,
    })
  })

  test('start from the base that is named, and refuse one that is not there', async () => {
    await git(['-C', repo, 'commit', '-q', '--allow-empty', '-m', 'second'])
    const first = await createWorktree({ layout: ground.layout, repo, name: 'old', base: 'HEAD~1' })
    expect(await gitText(first.tree_path, 'rev-parse', 'HEAD')).toBe(
      await gitText(repo, 'rev-parse', 'HEAD~1'),
    )
    for (const base of ['nowhere', '--all', '-x']) {
      await expect(createWorktree({ layout: ground.layout, repo, name: 'new', base })).rejects.toMatchObject({
        code: 'workspace.no_base',
      })
    }
  })

  test('a clean one is removed with its branch, and restored as it was', async () => {
    const { archive } = await removeIntegration(ground.layout, 'feature')
    expect(await branches()).toBe('main')
    expect(await gitText(repo, 'worktree', 'list')).not.toContain('worktrees')
    expect(await listWorktrees(ground.layout)).toEqual([])
    expect(await readdir(archive)).toContain('content')
    await restoreArchived(ground.layout, worktree.worktree_id)
    expect(await gitText(worktree.tree_path, 'symbolic-ref', '--short', 'HEAD')).toBe(worktree.branch)
    expect(await gitText(worktree.tree_path, 'status', '--porcelain')).toBe('')
    expect(await listArchive(ground.layout)).toEqual([])
    expect((await start()).status).toBe('starting')
  })

  test('one that holds work is kept until it is said what becomes of it, and the archive has all of it', async () => {
    await writeFile(join(worktree.tree_path, 'draft.txt'), 'precious')
    await writeFile(join(worktree.tree_path, 'a.txt'), 'edited')
    await git(['-C', worktree.tree_path, 'commit', '-q', '--allow-empty', '-m', 'Only here'])
    await expect(removeIntegration(ground.layout, 'feature')).rejects.toMatchObject({
      code: 'workspace.work_at_stake',
      exitCode: 77,
      message: expect.stringMatching(/Only here.*draft\.txt|draft\.txt.*Only here/),
    })
    const { id } = await removeIntegration(ground.layout, 'feature', { force: true })
    const kept = `refs/orangery/archive/${id}`
    expect(await gitText(repo, 'show', `${kept}:draft.txt`)).toBe('precious')
    expect(await gitText(repo, 'log', '-1', '--format=%s', `${kept}~1`)).toBe('Only here')
    await restoreArchived(ground.layout, id)
    expect(await readFile(join(worktree.tree_path, 'draft.txt'), 'utf8')).toBe('precious')
    expect(await gitText(worktree.tree_path, 'log', '-1', '--format=%s')).toBe('Only here')
    expect(await gitText(worktree.tree_path, 'status', '--porcelain')).toBe(' M a.txt\n?? draft.txt')
  })

  test('commits of a detached HEAD and what is staged are at stake, outlive a gc and come back', async () => {
    const tree = worktree.tree_path
    await git(['-C', tree, 'switch', '-q', '--detach'])
    await git(['-C', tree, 'commit', '-q', '--allow-empty', '-m', 'On no branch'])
    await expect(removeIntegration(ground.layout, 'feature')).rejects.toMatchObject({
      code: 'workspace.work_at_stake',
      message: expect.stringContaining('On no branch'),
    })
    const head = await gitText(tree, 'rev-parse', 'HEAD')
    await writeFile(join(tree, 'staged.txt'), 'staged and then removed')
    await git(['-C', tree, 'add', 'staged.txt'])
    await rm(join(tree, 'staged.txt'))
    const { id } = await removeIntegration(ground.layout, 'feature', { force: true })
    await git(['-C', repo, 'reflog', 'expire', '--expire=now', '--all'])
    await git(['-C', repo, 'prune', '--expire=now'])
    await restoreArchived(ground.layout, id)
    expect(await gitText(tree, 'rev-parse', 'HEAD')).toBe(head)
    expect(await gitText(tree, 'show', ':staged.txt')).toBe('staged and then removed')
    expect(await gitText(repo, 'for-each-ref', 'refs/orangery')).toBe('')
  })

  test('a merge that is not settled yet comes back with its conflicts and with what was settled of it', async () => {
    const tree = worktree.tree_path
    const commitAll = async (text: string) => {
      for (const path of ['a.txt', 'src/b.txt']) await writeFile(join(tree, path), text)
      await git(['-C', tree, 'commit', '-qam', text])
    }
    await git(['-C', tree, 'switch', '-qc', 'side'])
    await commitAll('theirs')
    await git(['-C', tree, 'switch', '-q', worktree.branch])
    await commitAll('mine')
    await git(['-C', tree, 'merge', '-q', 'side']).catch(() => {})
    await writeFile(join(tree, 'a.txt'), 'settled')
    await git(['-C', tree, 'add', 'a.txt'])
    await writeFile(join(tree, 'a.txt'), 'on the way')
    const before = await gitText(tree, 'ls-files', '-s')
    const { id } = await removeIntegration(ground.layout, 'feature', { force: true })
    await git(['-C', repo, 'reflog', 'expire', '--expire=now', '--all'])
    await git(['-C', repo, 'prune', '--expire=now'])
    await restoreArchived(ground.layout, id)
    expect(await gitText(tree, 'ls-files', '-s')).toBe(before)
    expect(await gitText(tree, 'show', ':a.txt')).toBe('settled')
    expect(await gitText(tree, 'rev-parse', 'MERGE_HEAD')).toBe(await gitText(repo, 'rev-parse', 'side'))
    expect(await gitText(repo, 'for-each-ref', 'refs/orangery')).toBe('')
  })

  test('one whose branch the user renamed is removed and comes back, and their branch stays', async () => {
    await git(['-C', repo, 'branch', '-m', worktree.branch, 'mine'])
    await expect(start()).rejects.toMatchObject({ code: 'workspace.branch_gone', exitCode: 65 })
    const { id } = await removeIntegration(ground.layout, 'feature')
    expect(await branches()).toBe('main\nmine')
    await restoreArchived(ground.layout, id)
    expect(await gitText(worktree.tree_path, 'symbolic-ref', '--short', 'HEAD')).toBe(worktree.branch)
  })

  test('without its repository an agent is discarded, and a tree goes to the archive when that is said', async () => {
    const meta = await start()
    await rename(repo, `${repo}-moved`)
    await expect(start()).rejects.toMatchObject({ code: 'workspace.repository_gone', exitCode: 66 })
    expect((await findOrphans(ground.layout)).map(({ kind, id }) => [kind, id])).toEqual([
      ['repository_gone', meta.invocation_id],
      ['repository_gone', worktree.worktree_id],
    ])
    await discardAgent(ground.layout, meta.invocation_id)
    await expect(removeIntegration(ground.layout, 'feature')).rejects.toMatchObject({ exitCode: 77 })
    const { archive } = await removeIntegration(ground.layout, 'feature', { force: true })
    expect(await readFile(join(archive, 'content', 'a.txt'), 'utf8')).toBe('one\n')
  })

  test('one that an agent runs on by overlay is not removed', async () => {
    const project = await identifyProject([worktree.tree_path])
    const workspace = await prepareWorkspace({
      id: makeDispatchId(new Date(), Buffer.from('7777', 'hex')),
      project,
      strategy: 'overlay',
      driver: 'kernel-overlay',
      layout: ground.layout,
      name: null,
      runner: 'command',
      mode: 'headless',
    })
    await using held = await claimWorkspace(ground.layout, workspace)
    await expect(removeIntegration(ground.layout, 'feature', { force: true })).rejects.toMatchObject({
      code: 'workspace.worktree_in_use',
      message: expect.stringContaining(workspace.id),
      exitCode: 75,
    })
    await held[Symbol.asyncDispose]()
    await removeIntegration(ground.layout, 'feature')
  })

  test('one that agents work from is not removed', async () => {
    await start()
    await expect(removeIntegration(ground.layout, 'feature', { force: true })).rejects.toMatchObject({
      code: 'workspace.worktree_in_use',
      exitCode: 75,
    })
  })

  test('commits that are merged elsewhere are not at stake', async () => {
    await git(['-C', worktree.tree_path, 'commit', '-q', '--allow-empty', '-m', 'Merged'])
    await git(['-C', repo, 'merge', '-q', '--ff-only', worktree.branch])
    await removeIntegration(ground.layout, 'feature')
    expect(await gitText(repo, 'log', '-1', '--format=%s')).toBe('Merged')
  })

  test('branches, worktrees and refs of the user are never touched', async () => {
    await git(['-C', repo, 'worktree', 'add', '-q', '-b', 'mine', ground.path('mine')])
    await git(['-C', repo, 'worktree', 'add', '-q', '-b', 'gone', ground.path('gone')])
    await rm(ground.path('gone'), { recursive: true })
    await git(['-C', repo, 'tag', 'v1'])
    const before = await gitText(repo, 'for-each-ref', '--exclude=refs/heads/agency').catch(() =>
      gitText(repo, 'for-each-ref', 'refs/tags', 'refs/heads/mine', 'refs/heads/gone', 'refs/heads/main'),
    )
    const trees = (await gitText(repo, 'worktree', 'list', '--porcelain')).match(/(mine|gone)$/gm)
    const meta = await start()
    await discardAgent(ground.layout, meta.invocation_id)
    await removeIntegration(ground.layout, 'feature')
    expect(
      await gitText(
        repo,
        'for-each-ref',
        'refs/tags',
        'refs/heads/mine',
        'refs/heads/gone',
        'refs/heads/main',
      ),
    ).toBe(before)
    // A stale worktree of the user is not pruned along with ours.
    expect((await gitText(repo, 'worktree', 'list', '--porcelain')).match(/(mine|gone)$/gm)).toEqual(trees)
  })
})

describe('discard and restore', () => {
  test("comes back with the agent's own index, also when git has given its worktree's name away", async () => {
    const meta = await start()
    const nameOf = async (tree: string) => basename((await readFile(join(tree, '.git'), 'utf8')).trim())
    const mount = meta.roots[1]?.mount
    const layer = join(mount?.kind === 'overlay' ? mount.upper : '', 'worktrees')
    await mkdir(join(layer, await nameOf(meta.sandbox_path)), { recursive: true })
    await writeFile(join(layer, await nameOf(meta.sandbox_path), 'index'), 'in conflict')
    await discardAgent(ground.layout, meta.invocation_id)
    const other = await start()
    await restoreArchived(ground.layout, meta.invocation_id)
    const name = await nameOf(meta.sandbox_path)
    expect(name).not.toBe(await nameOf(other.sandbox_path))
    expect(await readFile(join(layer, name, 'index'), 'utf8')).toBe('in conflict')
  })

  test('discard archives the branch and what was written, then deletes branch and worktree', async () => {
    const meta = await start()
    const id = meta.invocation_id
    const workspace = await enterInvocation(ground.layout, repoId(), id, {})
    const mount = workspace.roots[0]!.mount
    if (mount.kind !== 'overlay') throw new Error('expected an overlay')
    await writeFile(join(mount.upper, 'new.txt'), 'work')
    await discardAgent(ground.layout, id)
    expect(await branches()).not.toContain('sandbox')
    expect(await gitText(repo, 'worktree', 'list')).not.toContain('sandboxes')
    expect(await gitText(repo, 'rev-parse', `refs/orangery/archive/${id}`)).toBe(meta.base_commit)
    expect(await listAgents(ground.layout)).toEqual([])
    expect((await listAgents(ground.layout, { all: true }))[0]).toMatchObject({
      id,
      broken: false,
      meta: { outcome: 'discarded' },
    })

    await restoreArchived(ground.layout, id)
    expect(await readFile(join(mount.upper, 'new.txt'), 'utf8')).toBe('work')
    expect(await gitText(meta.sandbox_path, 'symbolic-ref', '--short', 'HEAD')).toBe(meta.sandbox_branch)
    expect(await gitText(meta.sandbox_path, 'status', '--porcelain')).toBe('')
    await enterInvocation(ground.layout, repoId(), id, {})
  })

  test('a running agent is not discarded', async () => {
    const meta = await start()
    const workspace = await enterInvocation(ground.layout, repoId(), meta.invocation_id, {})
    await using _held = await claimWorkspace(ground.layout, workspace)
    await expect(discardAgent(ground.layout, meta.invocation_id)).rejects.toMatchObject({ exitCode: 75 })
    expect(await branches()).toContain(meta.sandbox_branch)
  })

  test('a broken one is discarded by its exact id and comes back as broken as it was', async () => {
    const meta = await start()
    const id = meta.invocation_id
    await writeFile(ground.layout.invocationMeta(repoId(), id), 'spoiled')
    await discardAgent(ground.layout, id)
    expect(await branches()).not.toContain('sandbox')
    expect(await gitText(repo, 'rev-parse', `refs/orangery/archive/${id}`)).toBe(meta.base_commit)
    await restoreArchived(ground.layout, id)
    expect((await listAgents(ground.layout, { all: true }))[0]).toMatchObject({ id, broken: true })
    expect(await readFile(join(meta.sandbox_path, 'a.txt'), 'utf8')).toBe('one\n')
  })

  test('the archive keeps for 30 days and lets go only of what is due', async () => {
    const [old, young] = [await start(), await start()]
    await discardAgent(ground.layout, old.invocation_id)
    await discardAgent(ground.layout, young.invocation_id)
    const day = 24 * 60 * 60 * 1000
    expect(await expireArchive(ground.layout, Date.now() + 29 * day)).toEqual([])
    const record = join(ground.layout.archive, old.invocation_id, 'record.json')
    const text = JSON.parse(await readFile(record, 'utf8')) as { expires_at: string }
    await writeFile(record, JSON.stringify({ ...text, expires_at: new Date(Date.now() - day).toISOString() }))
    expect((await expireArchive(ground.layout)).map(({ id }) => id)).toEqual([old.invocation_id])
    expect(await gitText(repo, 'for-each-ref', '--format=%(refname)', 'refs/orangery')).toBe(
      `refs/orangery/archive/${young.invocation_id}`,
    )
    await expect(restoreArchived(ground.layout, old.invocation_id)).rejects.toMatchObject({ exitCode: 66 })
  })
})

describe('.worktreeinclude', () => {
  beforeEach(async () => {
    await writeFile(join(repo, '.gitignore'), '.env\n*.log\nlinks\n')
    await writeFile(join(repo, '.worktreeinclude'), '.env\na.txt\nlinks\nconfig/.env\n')
    await mkdir(join(repo, 'config'))
    for (const path of ['.env', 'config/.env', 'debug.log'])
      await writeFile(join(repo, path), `secret of ${path}`)
    await symlink('/etc/hostname', join(repo, 'links'))
    await git(['-C', repo, 'add', '-A'])
    await git(['-C', repo, 'commit', '-q', '-m', 'list'])
  })

  test('copies ignored files that it names, and nothing else, from a repository that is trusted', async () => {
    const made = await createWorktree({ layout: ground.layout, repo, name: 'trusted', trusted: true })
    expect((await readdir(made.tree_path)).sort()).toEqual(
      ['.agency', '.env', '.git', '.gitignore', '.worktreeinclude', 'a.txt', 'config', 'src'].sort(),
    )
    expect(await readFile(join(made.tree_path, 'config', '.env'), 'utf8')).toBe('secret of config/.env')
    expect(await gitText(made.tree_path, 'status', '--porcelain')).toBe('')
    const meta = await startAgent({ layout: ground.layout, worktree: 'trusted', trusted: true })
    expect(await readFile(join(meta.sandbox_path, '.env'), 'utf8')).toBe('secret of .env')
  })

  test('copies files and folders whose names are no UTF-8', async () => {
    const name = (text: string) => Buffer.from(text, 'latin1')
    const at = (tree: string, path: string) => Buffer.concat([Buffer.from(`${tree}/`), name(path)])
    await mkdir(at(repo, 'caf\xe9'))
    for (const path of ['caf\xe9/.env', 'caf\xe9/caf\xe9.log']) await writeFile(at(repo, path), 'secret')
    await writeFile(join(repo, '.worktreeinclude'), '.env\n*.log\n')
    const made = await createWorktree({ layout: ground.layout, repo, name: 'bytes', trusted: true })
    for (const path of ['caf\xe9/.env', 'caf\xe9/caf\xe9.log', 'debug.log'])
      expect(String(await readFile(at(made.tree_path, path))), path).toContain('secret')
    expect(await gitText(made.tree_path, 'status', '--porcelain')).toBe('')
  })

  test('is not honoured before that, and creation says so', async () => {
    const made = await createWorktree({ layout: ground.layout, repo, name: 'untrusted' })
    expect(await readdir(made.tree_path)).not.toContain('.env')
    expect(made.notes.join()).toContain('not honoured until you trust')
  })
})

describe('orphans', () => {
  test('are named in git, on disk, in the archive and in the database, and nothing is touched', async () => {
    const meta = await start()
    const gone = await start()
    await git(['-C', repo, 'branch', 'agency/sandbox-20260128120500-b7c9'])
    await rm(gone.sandbox_path, { recursive: true })
    await mkdir(join(ground.layout.archive, 'something'), { recursive: true })
    const before = await gitText(repo, 'for-each-ref')
    const orphans = await findOrphans(ground.layout, [
      { id: meta.invocation_id, isLive: true },
      { id: '20260128120500-0000', isLive: true },
      { id: '20260128120500-0001', isLive: false },
    ])
    expect(orphans.map(({ kind, id }) => `${kind} ${id}`).sort()).toEqual(
      [
        'archive_without_record something',
        'branch_without_sandbox 20260128120500-b7c9',
        `record_without_sandbox ${gone.invocation_id}`,
        'row_without_record 20260128120500-0000',
      ].sort(),
    )
    expect(await gitText(repo, 'for-each-ref')).toBe(before)
  })

  test("a branch of the user's own is none, however much its name is like one of ours", async () => {
    const own = ['agency/x-2024', 'agency/feature-beef', 'agency/sandbox-20260128120500-aaaa']
    for (const branch of own) expect((await run('git', ['-C', repo, 'branch', branch])).code).toBe(0)
    // The control: one that Orangery made, and left.
    const left = ['agency/left-2025', 'agency/sandbox-20260128120500-bbbb']
    for (const branch of left) await git(['-C', repo, 'branch', branch])
    // Of one whose way nobody kept a whole id in its name still tells.
    const unkept = 'agency/sandbox-20260128120500-cccc'
    await git(['-C', repo, '-c', 'core.logAllRefUpdates=false', 'branch', unkept])
    const places = (await findOrphans(ground.layout)).map(({ place }) => place)
    expect(places).toEqual([...left, unkept].map((branch) => expect.stringContaining(` ${branch}`) as string))
  })

  test('an integration worktree whose folder and record are lost is one, and then the branch that it leaves', async () => {
    const { layout } = ground
    const lost = await createWorktree({ layout, repo, name: 'lost' })
    await git(['-C', lost.tree_path, 'commit', '-q', '--allow-empty', '-m', 'Work'])
    expect(await findOrphans(layout)).toEqual([])
    await rm(layout.worktree(lost.repo_id as RepoId, lost.worktree_id), { recursive: true })
    const [registered, ...others] = await findOrphans(layout)
    expect(others).toEqual([])
    expect(registered).toMatchObject({ kind: 'registered_without_worktree', id: lost.worktree_id })
    await run('sh', ['-c', registered?.hint ?? ''])
    const left = { kind: 'branch_without_worktree', place: expect.stringContaining(lost.branch) }
    expect(await findOrphans(layout)).toMatchObject([left])
    // What is told is looked at only, and git refuses to delete what is nowhere else.
    expect((await run('sh', ['-c', `git --git-dir=${repo}/.git branch -d ${lost.branch}`])).code).not.toBe(0)
    await git(['-C', repo, 'merge', '-q', '--ff-only', lost.branch])
    await git(['-C', repo, 'branch', '-q', '-d', lost.branch])
    expect(await findOrphans(layout)).toEqual([])
  })
})
