import { createHash } from 'node:crypto'
import { mkdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { DispatchId } from '../../src/shared/ids.ts'
import { git, tryGit } from '../../src/engine/base/git.ts'
import type { InvocationMeta } from '../../src/engine/base/invocation.ts'
import { run } from '../../src/engine/base/process.ts'
import { gitText, makeFeature, type Feature } from '../../src/engine/workspace/fixture.ts'
import {
  adoptCommits,
  collectCommits,
  commitLanding,
  discardAgent,
  expireArchive,
  listCommits,
  readInvocationMeta,
  refuseOwnWork,
  removeIntegration,
  restoreArchived,
  retireLanded,
  showCommit,
  type InsideRunner,
} from '../../src/engine/workspace/index.ts'

let { ground, repo, worktree, repoId, start, branches } = {} as Feature
beforeEach(async () => {
  ;({ ground, repo, worktree, repoId, start, branches } = await makeFeature())
})
afterEach(() => ground[Symbol.asyncDispose]())

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
  const runner: InsideRunner = (args, options) => tryGit(args, { ...options, gitDir: join(inside, '.git') })
  const collect = () =>
    collectCommits({
      layout: ground.layout,
      repoId: repoId(),
      id: meta.invocation_id,
      commonDir: worktree.common_dir,
      inside: runner,
    })
  return { inside, commit, collect }
}

describe('commits of the agent', () => {
  test('of a discarded agent are in the repository for as long as the archive keeps it', async () => {
    const meta = await start()
    const work = await agentWork(meta)
    await work.commit('a.txt', 'first')
    await work.collect()
    const kept = () => gitText(repo, 'for-each-ref', '--format=%(refname)', 'refs/orangery')
    await discardAgent(ground.layout, meta.invocation_id)
    expect(await kept()).toContain(`refs/orangery/${meta.invocation_id}/heads/`)
    await restoreArchived(ground.layout, meta.invocation_id)
    expect(await kept()).toBe('')
    await discardAgent(ground.layout, meta.invocation_id)
    await expireArchive(ground.layout, Date.now() + 31 * 24 * 60 * 60 * 1000)
    expect(await kept()).toBe('')
    expect(await listCommits(ground.layout, repoId(), meta.invocation_id, meta.base_commit!)).toEqual([])
  })

  test('that point a submodule elsewhere are told at the landing, and it stays where it is', async () => {
    const meta = await start()
    const work = await agentWork(meta)
    const to = await gitText(repo, 'rev-parse', 'HEAD')
    await git(['-C', work.inside, 'update-index', '--add', '--cacheinfo', `160000,${to},sub`])
    await git(['-C', work.inside, 'commit', '-qm', 'Use a submodule'])
    await work.collect()
    const { notes } = await commitLanding({
      layout: ground.layout,
      repoId: repoId(),
      id: meta.invocation_id,
      how: 'merge',
      paths: [],
    })
    expect(notes).toEqual([
      expect.stringContaining(`sub: the agent's commits point this submodule at ${to.slice(0, 12)}`),
    ])
    expect(await gitText(repo, 'ls-tree', worktree.branch, 'sub')).toBe('')
  })

  test('come out without a marker that one of them holds, and otherwise as they were made', async () => {
    const meta = await start()
    const work = await agentWork(meta)
    const clean = await work.commit('a.txt', 'first')
    await mkdir(join(work.inside, '.agency'))
    await work.commit('.agency/SANDBOX_MARKER', 'forged')
    const last = await work.commit('b.txt', 'last')
    const [collected] = await work.collect()
    expect(collected?.was).toBe(last)
    const gitDir = join(ground.layout.repo(repoId()), 'commits.git')
    const listed = await listCommits(ground.layout, repoId(), meta.invocation_id, meta.base_commit!)
    expect(listed.map(({ subject }) => subject)).toEqual([
      'Change a.txt',
      'Change .agency/SANDBOX_MARKER',
      'Change b.txt',
    ])
    expect(listed[0]?.commit).toBe(clean)
    for (const { commit } of listed)
      expect((await git(['ls-tree', '-r', '--name-only', commit], { gitDir })).toString()).not.toContain(
        'MARKER',
      )
    expect((await git(['show', `${collected?.commit}:b.txt`], { gitDir })).toString()).toBe('last')
  })

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
    const shown = (commit: string) =>
      showCommit(ground.layout, repoId(), meta.invocation_id, commit, meta.base_commit)
    expect((await shown(first)).text).toContain('+first')
    expect((await shown(second.slice(0, 12))).text).toContain('+second')
    await expect(shown('0'.repeat(40))).rejects.toMatchObject({ code: 'workspace.no_commit' })
    expect(await gitText(repo, 'count-objects', '-v')).toBe(before)
    expect(await gitText(repo, 'for-each-ref')).toBe(refs)
  })

  test('content that only a merge brings is shown', async () => {
    const meta = await start()
    const work = await agentWork(meta)
    const tip = await work.commit('a.txt', 'first')
    await writeFile(join(work.inside, 'hidden.txt'), 'only in the merge')
    await git(['-C', work.inside, 'add', '-A'])
    const tree = await gitText(work.inside, 'write-tree')
    const parents = ['-p', tip, '-p', meta.base_commit!]
    const merge = await gitText(work.inside, 'commit-tree', tree, ...parents, '-m', 'Merge')
    await git(['-C', work.inside, 'update-ref', 'HEAD', merge])
    await work.collect()
    const { text } = await showCommit(
      ground.layout,
      repoId(),
      meta.invocation_id,
      merge.slice(0, 12),
      meta.base_commit,
    )
    expect(text).toContain('+only in the merge')
  })

  test('a branch that the agent only moved to another commit of the user is none of them', async () => {
    await git(['-C', repo, 'branch', 'older'])
    await git(['-C', repo, 'commit', '-q', '--allow-empty', '-m', 'Later'])
    const work = await agentWork(await start())
    await git(['-C', work.inside, 'branch', '-q', 'older', 'origin/main'])
    await git(['-C', work.inside, 'branch', '-q', '-f', 'main', 'origin/older'])
    expect(await work.collect()).toEqual([])
  })

  test('an agent that committed nothing leaves nothing to collect', async () => {
    const work = await agentWork(await start())
    expect((await work.collect()).filter(({ ref }) => ref.includes('sandbox'))).toEqual([])
  })

  test('a commit of the user on the sandbox branch is kept beside those of the agent, and both come back', async () => {
    const meta = await start()
    const work = await agentWork(meta)
    const own = await work.commit('a.txt', 'agent')
    await work.collect()
    await git(['-C', meta.sandbox_path, 'commit', '-q', '--allow-empty', '-m', 'By the user'])
    const theirs = await gitText(meta.sandbox_path, 'rev-parse', 'HEAD')
    await discardAgent(ground.layout, meta.invocation_id)
    await git(['-C', repo, 'reflog', 'expire', '--expire=now', '--all'])
    await git(['-C', repo, 'prune', '--expire=now'])
    expect(await gitText(repo, 'cat-file', '-t', own)).toBe('commit')
    await restoreArchived(ground.layout, meta.invocation_id)
    expect(await gitText(meta.sandbox_path, 'rev-parse', 'HEAD')).toBe(theirs)
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
  const land = (
    id: DispatchId,
    how: 'merge' | 'squash' | 'apply',
    paths: string[],
    more: Partial<Parameters<typeof commitLanding>[0]> = {},
  ) =>
    commitLanding({
      ...more,
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

  test('what the user saves between landing and commit is in no commit: it is refused, or was committed before', async () => {
    const { invocation_id: id } = await start()
    const hashOf = (text: string) => createHash('sha256').update(text).digest('hex')
    const hashes = new Map([
      ['a.txt', hashOf('agent')],
      ['new.txt', hashOf('agent')],
      ['src/b.txt', null],
    ])
    const files = { 'a.txt': 'agent', 'new.txt': 'agent', 'src/b.txt': null }
    const paths = await applied(files)
    const refused = async (path: string, text: string | null) => {
      await applied({ [path]: text })
      await expect(land(id, 'squash', paths, { hashes })).rejects.toMatchObject({
        code: 'workspace.own_work',
        exitCode: 75,
        details: { paths: [path] },
      })
      await applied({ 'a.txt': 'agent', 'new.txt': 'agent' })
    }
    await refused('a.txt', 'agent\npassword')
    await refused('src/b.txt', 'two, once more')
    await rm(join(worktree.tree_path, 'src/b.txt'))
    await applied({ 'a.txt': 'mine' })
    await git(['-C', worktree.tree_path, 'commit', '-qm', 'Mine', '--', 'a.txt'])
    const { commit } = await land(id, 'squash', paths, { hashes })
    expect(await gitText(repo, 'show', '--format=', '--name-status', commit!)).toBe(
      'A\tnew.txt\nD\tsrc/b.txt',
    )
  })

  test('merge takes the branch that the agent ended on, and says where its other commits are', async () => {
    const meta = await start()
    const id = meta.invocation_id
    const work = await agentWork(meta)
    await work.commit('a.txt', 'on the branch it was given')
    await git(['-C', work.inside, 'checkout', '-q', '-b', 'its-own', meta.base_commit!])
    const tip = await work.commit('b.txt', 'on its own')
    await work.collect()
    const place = { layout: ground.layout, repoId: repoId(), id, commonDir: worktree.common_dir }
    const tips = [{ ref: 'refs/heads/its-own', oid: tip, head: true }]
    await adoptCommits({ ...place, from: join(work.inside, '.git'), tips, isOnBranch: true })
    const landed = await land(id, 'merge', [])
    expect(await gitText(repo, 'show', '-s', '--format=%P', worktree.branch)).toBe(
      `${meta.base_commit} ${tip}`,
    )
    expect(landed.notes).toEqual([
      `commits of the agent that were not merged are kept in refs/orangery/${id}/heads/${meta.sandbox_branch}`,
    ])
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

  test('line endings are recorded as the attributes say, and left where they say nothing', async () => {
    await writeFile(join(worktree.tree_path, '.gitattributes'), '*.txt text eol=crlf\n')
    const meta = await start()
    const paths = await applied({ 'a.txt': 'one\r\ntwo\r\n', 'raw.bin': 'one\r\n' })
    await land(meta.invocation_id, 'squash', paths)
    const show = async (path: string) =>
      (await git(['-C', repo, 'show', `${worktree.branch}:${path}`])).toString()
    expect(await show('a.txt')).toBe('one\ntwo\n')
    expect(await show('raw.bin')).toBe('one\r\n')
    expect(await gitText(worktree.tree_path, 'status', '--porcelain')).toBe('?? .gitattributes')
  })

  test('work of the user in a file that lands is refused, and what an earlier part has landed is not', async () => {
    const meta = await start()
    await applied({ 'a.txt': 'landed' })
    const hash = (text: string) => createHash('sha256').update(text).digest('hex')
    const landed = new Map([['a.txt', { before: hash('one\n'), after: hash('landed') }]])
    const refuse = () => refuseOwnWork(ground.layout, meta, ['src/b.txt', 'new.txt'], landed)
    await refuse()
    await writeFile(join(worktree.tree_path, 'other.txt'), 'of nobody else')
    await refuse()
    for (const [path, text] of [
      ['src/b.txt', 'two\n'],
      ['new.txt', null],
      ['a.txt', 'landed'],
    ] as const) {
      await applied({ [path]: 'by the user' })
      await expect(refuse()).rejects.toMatchObject({
        code: 'workspace.own_work',
        message: expect.stringContaining(path),
        exitCode: 75,
      })
      await applied({ [path]: text })
    }
    // What an earlier part was merged into was the user's own, not what is committed.
    landed.set('a.txt', { before: hash('one, by the user\n'), after: hash('landed') })
    await expect(refuse()).rejects.toMatchObject({ code: 'workspace.own_work' })
  })

  test('work of the user that he told git to look past is refused as any other, and its flags stay', async () => {
    const meta = await start()
    const tree = worktree.tree_path
    const refuse = () => refuseOwnWork(ground.layout, meta, ['a.txt'], new Map())
    for (const flag of ['skip-worktree', 'assume-unchanged']) {
      await git(['-C', tree, 'update-index', `--${flag}`, 'a.txt'])
      await refuse()
      // Of the same length: nothing but the bytes tells it.
      await applied({ 'a.txt': 'two\n' })
      expect(await gitText(tree, 'status', '--porcelain')).toBe('')
      await expect(refuse()).rejects.toMatchObject({ code: 'workspace.own_work', exitCode: 75 })
      expect(await gitText(tree, 'ls-files', '-v', 'a.txt')).toMatch(/^[a-zS] a\.txt$/)
      await applied({ 'a.txt': 'one\n' })
      await git(['-C', tree, 'update-index', `--no-${flag}`, 'a.txt'])
    }
    // What a sparse checkout leaves out is nobody's work.
    await git(['-C', tree, 'update-index', '-q', '--refresh'])
    await git(['-C', tree, 'sparse-checkout', 'set', '--no-cone', '/src/'])
    await expect(stat(join(tree, 'a.txt'))).rejects.toMatchObject({ code: 'ENOENT' })
    await refuse()
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
