import { mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { DispatchId, RepoId } from '../../shared/ids.ts'
import { git } from '../base/git.ts'
import type { InvocationMeta, WorktreeMeta } from '../base/invocation.ts'
import { run } from '../base/process.ts'
import { Ground, gitText } from './fixture.ts'
import {
  claimWorkspace,
  collectCommits,
  commitLanding,
  createWorktree,
  discardAgent,
  enterInvocation,
  expireArchive,
  findOrphans,
  listAgents,
  listArchive,
  listCommits,
  listWorktrees,
  readInvocationMeta,
  removeIntegration,
  resolveWorktree,
  restoreArchived,
  retireLanded,
  showCommit,
  startAgent,
  type InsideRunner,
} from './index.ts'

let ground: Ground
let repo: string
let worktree: WorktreeMeta
beforeEach(async () => {
  ground = await Ground.make()
  repo = await ground.repo('repo')
  worktree = await createWorktree({ layout: ground.layout, repo, name: 'feature' })
})
afterEach(() => ground[Symbol.asyncDispose]())

const repoId = () => worktree.repo_id as RepoId
const start = (over: Partial<Parameters<typeof startAgent>[0]> = {}) =>
  startAgent({ layout: ground.layout, worktree: 'feature', ...over })
const branches = () => gitText(repo, 'branch', '--list', '--format=%(refname:short)')

/** What an agent did in its own view of the repository: a clone stands in for the overlay. */
async function agentWork(meta: InvocationMeta) {
  const inside = ground.path(`inside-${meta.invocation_id}`)
  await git(['-c', 'protocol.allow=always', 'clone', '-q', '--no-hardlinks', repo, inside])
  await git(['-C', inside, 'checkout', '-q', '-B', meta.sandbox_branch!, meta.base_commit!])
  const commit = async (path: string, text: string) => {
    await writeFile(join(inside, path), text)
    await git(['-C', inside, 'add', '-A'])
    await git(['-C', inside, 'commit', '-q', '-m', `Change ${path}`])
    return gitText(inside, 'rev-parse', 'HEAD')
  }
  const runner: InsideRunner = ([file, ...args], options) => run(file, args, options)
  const collect = () =>
    collectCommits({
      layout: ground.layout,
      repoId: repoId(),
      id: meta.invocation_id,
      commonDir: worktree.common_dir,
      checkout: inside,
      inside: runner,
    })
  return { inside, commit, collect }
}

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
  test('discard archives the branch and what was written, then deletes branch and worktree', async () => {
    const meta = await start()
    const id = meta.invocation_id
    const workspace = await enterInvocation(ground.layout, repoId(), id, { access: 'rw' })
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
    await enterInvocation(ground.layout, repoId(), id, { access: 'rw' })
  })

  test('a running agent is not discarded', async () => {
    const meta = await start()
    const workspace = await enterInvocation(ground.layout, repoId(), meta.invocation_id, { access: 'rw' })
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

describe('commits of the agent', () => {
  test('come out as checked objects, readable one by one, while the user repository stays as it is', async () => {
    const meta = await start()
    const work = await agentWork(meta)
    const first = await work.commit('a.txt', 'first')
    const second = await work.commit('new.txt', 'second')
    const before = await gitText(repo, 'count-objects', '-v')
    const refs = await gitText(repo, 'for-each-ref')
    const collected = await work.collect()
    expect(collected).toEqual([
      { ref: `refs/orangery/${meta.invocation_id}/heads/${meta.sandbox_branch}`, commit: second },
    ])
    const commits = await listCommits(ground.layout, repoId(), meta.invocation_id, meta.base_commit!)
    expect(commits.map(({ commit, subject }) => [commit, subject])).toEqual([
      [first, 'Change a.txt'],
      [second, 'Change new.txt'],
    ])
    expect(await showCommit(ground.layout, repoId(), meta.invocation_id, first)).toContain('+first')
    await expect(
      showCommit(ground.layout, repoId(), meta.invocation_id, '0'.repeat(40)),
    ).rejects.toMatchObject({ code: 'workspace.no_commit' })
    expect(await gitText(repo, 'count-objects', '-v')).toBe(before)
    expect(await gitText(repo, 'for-each-ref')).toBe(refs)
  })

  test('an agent that committed nothing leaves nothing to collect', async () => {
    const work = await agentWork(await start())
    expect((await work.collect()).filter(({ ref }) => ref.includes('sandbox'))).toEqual([])
  })

  test('objects that are not sound are refused', async () => {
    const meta = await start()
    const work = await agentWork(meta)
    const blob = await gitText(work.inside, 'hash-object', '-w', 'a.txt')
    const tree = Buffer.concat([Buffer.from('100644 .git\0'), Buffer.from(blob, 'hex')])
    const bad = (
      await git(['-C', work.inside, 'hash-object', '-t', 'tree', '-w', '--literally', '--stdin'], {
        input: tree,
      })
    )
      .toString()
      .trim()
    const commit = await gitText(work.inside, 'commit-tree', bad, '-p', meta.base_commit!, '-m', 'evil')
    await git(['-C', work.inside, 'update-ref', 'HEAD', commit])
    await expect(work.collect()).rejects.toMatchObject({ code: 'workspace.commits_refused', kind: 'refused' })
  })
})

describe('landing', () => {
  /** Stands in for the changeset's apply: it writes the reviewed files into the integration tree. */
  async function applied(files: Readonly<Record<string, string | null>>): Promise<string[]> {
    for (const [path, text] of Object.entries(files)) {
      if (text === null) await rm(join(worktree.tree_path, path))
      else await writeFile(join(worktree.tree_path, path), text)
    }
    return Object.keys(files)
  }
  const land = (id: DispatchId, how: 'merge' | 'squash' | 'apply', paths: string[]) =>
    commitLanding({
      layout: ground.layout,
      repoId: repoId(),
      id,
      how,
      paths,
      identity: { name: 'Ann', email: 'ann@example.com' },
    })

  test('merge keeps the agent commits as a parent and lands exactly the reviewed files', async () => {
    const meta = await start({ name: 'arch-agent' })
    const work = await agentWork(meta)
    await work.commit('a.txt', 'agent')
    const tip = await work.commit('evil.txt', 'not approved')
    await work.collect()
    await writeFile(join(worktree.tree_path, 'src', 'b.txt'), 'work of the user, not committed')
    await writeFile(join(worktree.tree_path, 'staged.txt'), 'staged by the user')
    await git(['-C', worktree.tree_path, 'add', 'staged.txt'])
    const landed = await land(meta.invocation_id, 'merge', await applied({ 'a.txt': 'agent' }))
    expect(await gitText(repo, 'show', '-s', '--format=%P|%an|%s', worktree.branch)).toBe(
      `${meta.base_commit} ${tip}|Ann|Merge arch-agent`,
    )
    expect(landed.commit).toBe(await gitText(repo, 'rev-parse', worktree.branch))
    expect(await gitText(repo, 'diff', '--name-only', meta.base_commit!, worktree.branch)).toBe('a.txt')
    expect(await gitText(worktree.tree_path, 'status', '--porcelain')).toBe(' M src/b.txt\nA  staged.txt')
    await retireLanded(ground.layout, repoId(), meta.invocation_id)
    expect(await branches()).not.toContain('sandbox')
    expect(await gitText(repo, 'rev-parse', `refs/orangery/archive/${meta.invocation_id}`)).toBe(tip)
    expect((await readInvocationMeta(ground.layout, repoId(), meta.invocation_id)).outcome).toBe('landed')
  })

  test('squash makes one commit, with additions, deletions, links, modes and folders replaced by files', async () => {
    const meta = await start()
    await rm(join(worktree.tree_path, 'src'), { recursive: true })
    await writeFile(join(worktree.tree_path, 'src'), 'now a file', { mode: 0o755 })
    await symlink('a.txt', join(worktree.tree_path, 'link'))
    const paths = [...(await applied({ 'a.txt': null })), 'src/b.txt', 'src', 'link']
    await land(meta.invocation_id, 'squash', paths)
    expect(await gitText(repo, 'ls-tree', '-r', '--format=%(objectmode) %(path)', worktree.branch)).toBe(
      '120000 link\n100755 src',
    )
    expect(await gitText(repo, 'show', '-s', '--format=%P', worktree.branch)).toBe(meta.base_commit)
    expect(await gitText(worktree.tree_path, 'status', '--porcelain')).toBe('')
  })

  test('apply leaves the reviewed files uncommitted, and nothing to commit makes no commit', async () => {
    const meta = await start()
    const paths = await applied({ 'a.txt': 'agent' })
    expect((await land(meta.invocation_id, 'apply', paths)).commit).toBeNull()
    expect(await gitText(worktree.tree_path, 'status', '--porcelain')).toBe(' M a.txt')
    expect((await land(meta.invocation_id, 'squash', [])).commit).toBeNull()
  })

  test('no hook, filter or merge driver of the repository runs while something lands', async () => {
    const canary = ground.path('canary')
    await mkdir(join(repo, '.git', 'hooks'), { recursive: true })
    for (const hook of [
      'pre-commit',
      'post-commit',
      'reference-transaction',
      'post-checkout',
      'post-index-change',
    ]) {
      await writeFile(join(repo, '.git', 'hooks', hook), `#!/bin/sh\ntouch ${canary}\n`, { mode: 0o755 })
    }
    for (const key of [
      'filter.x.clean',
      'filter.x.smudge',
      'filter.x.process',
      'merge.x.driver',
      'core.fsmonitor',
    ]) {
      await git(['-C', repo, 'config', key, `touch ${canary}`])
    }
    await writeFile(join(worktree.tree_path, '.gitattributes'), '* filter=x merge=x\n')
    const meta = await start()
    await land(meta.invocation_id, 'squash', [...(await applied({ 'a.txt': 'agent' })), '.gitattributes'])
    await discardAgent(ground.layout, meta.invocation_id)
    await removeIntegration(ground.layout, 'feature', { force: true })
    await restoreArchived(ground.layout, worktree.worktree_id)
    await expect(stat(canary)).rejects.toMatchObject({ code: 'ENOENT' })
    // The control: the user's own git does run them.
    await run('git', [
      '-C',
      worktree.tree_path,
      '-c',
      'user.name=x',
      '-c',
      'user.email=x@y',
      'commit',
      '-q',
      '--allow-empty',
      '-m',
      'x',
    ])
    await stat(canary)
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
        `registered_without_sandbox ${gone.invocation_id}`,
        'row_without_record 20260128120500-0000',
      ].sort(),
    )
    expect(await gitText(repo, 'for-each-ref')).toBe(before)
  })
})
