import { appendFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { InvocationMeta } from '../../src/engine/base/invocation.ts'
import { git } from '../../src/engine/base/git.ts'
import { gitText, makeFeature, type Feature } from '../../src/engine/workspace/fixture.ts'
import {
  discardAgent,
  disposeWorkspace,
  listAgents,
  removeIntegration,
  restoreArchived,
  startAgent,
} from '../../src/engine/workspace/index.ts'
import { workspaceOf } from '../../src/engine/workspace/find/invocation.ts'

let { ground, repo, worktree, repoId } = {} as Feature
let feature: Feature
beforeEach(async () => {
  feature = await makeFeature()
  ;({ ground, repo, worktree, repoId } = feature)
})
afterEach(() => ground[Symbol.asyncDispose]())

/** Nobody is as fast as a test: the times of files lag by a tick of the kernel. */
const start = async () => {
  const meta = await feature.start()
  await sleep(20)
  return meta
}

describe('a sandbox in which the agent changed nothing', () => {
  /** As at the end of such a run; says whether it still stands. */
  const end = async (meta: InvocationMeta) => {
    await disposeWorkspace(workspaceOf(ground.layout, repoId(), meta), { archive: false })
    const ids = (await listAgents(ground.layout)).map(({ id }) => id)
    return ids.includes(meta.invocation_id)
  }

  test('goes, also with what .worktreeinclude brought along', async () => {
    expect(await end(await start())).toBe(false)
    const tree = worktree.tree_path
    await appendFile(
      await gitText(tree, 'rev-parse', '--path-format=absolute', '--git-path', 'info/exclude'),
      '*.env\n',
    )
    await mkdir(join(tree, 'local'))
    for (const path of ['local/x.env', 'y.env']) await writeFile(join(tree, path), 'secret')
    await writeFile(join(tree, '.worktreeinclude'), '*.env\n')
    const meta = await startAgent({ layout: ground.layout, worktree: 'feature', trusted: true })
    expect(await readFile(join(meta.sandbox_path, 'local/x.env'), 'utf8')).toBe('secret')
    expect(await end(meta)).toBe(false)
  })

  const ownWork: Record<string, (tree: string) => Promise<unknown>> = {
    'a new file': (tree) => writeFile(join(tree, 'mine.txt'), 'mine'),
    'an edit': (tree) => writeFile(join(tree, 'a.txt'), 'mine'),
    'a file that git ignores': async (tree) => {
      await appendFile(join(repo, '.git/info/exclude'), 'cache/\n')
      await mkdir(join(tree, 'cache/deep'), { recursive: true })
      await writeFile(join(tree, 'cache/deep/file'), 'mine')
    },
    'an edit that git was told to look past': async (tree) => {
      await git(['-C', tree, 'update-index', '--skip-worktree', 'a.txt'])
      await writeFile(join(tree, 'a.txt'), 'mine')
    },
  }
  for (const [what, work] of Object.entries(ownWork)) {
    test(`stays with the user's own work, ${what}, until it is discarded, and the archive has it then`, async () => {
      const meta = await start()
      await work(meta.sandbox_path)
      expect(await end(meta)).toBe(true)
      await discardAgent(ground.layout, meta.invocation_id)
      await restoreArchived(ground.layout, meta.invocation_id)
      const files = ['mine.txt', 'a.txt', 'cache/deep/file'].map((path) =>
        readFile(join(meta.sandbox_path, path), 'utf8').catch(() => ''),
      )
      expect(await Promise.all(files)).toContain('mine')
    })
  }

  test('stays with what the user put beside the marker, where git ignores the whole folder', async () => {
    await appendFile(join(repo, '.git/info/exclude'), '.agency/\n')
    expect(await end(await start())).toBe(false)
    const meta = await start()
    await writeFile(join(meta.sandbox_path, '.agency/notes.md'), 'mine')
    expect(await end(meta)).toBe(true)
    await writeFile(join(worktree.tree_path, '.agency/notes.md'), 'mine')
    await discardAgent(ground.layout, meta.invocation_id)
    await expect(removeIntegration(ground.layout, 'feature')).rejects.toMatchObject({
      code: 'workspace.work_at_stake',
      message: expect.stringContaining('.agency/notes.md'),
    })
  })

  test('stays with a file whose name differs from another only in its case, whatever git is told of cases', async () => {
    await git(['-C', repo, 'config', 'core.ignoreCase', 'true'])
    const meta = await start()
    await writeFile(join(meta.sandbox_path, 'A.TXT'), 'mine')
    expect(await end(meta)).toBe(true)
  })

  describe('of a repository with submodules', () => {
    beforeEach(async () => {
      const source = await ground.repo('source', { 'a.txt': 'one\n', '.gitignore': 'build/\n' })
      const add = ['-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', source, 'sub']
      await git(['-C', repo, ...add])
      await git(['-C', repo, 'config', '-f', '.gitmodules', 'submodule.sub.ignore', 'all'])
      const unknown = `160000,${await gitText(source, 'rev-parse', 'HEAD')},empty`
      await git(['-C', repo, 'update-index', '--add', '--cacheinfo', unknown])
      await git(['-C', repo, 'add', '.gitmodules'])
      await git(['-C', repo, 'commit', '-qm', 'Add submodules'])
      await git(['-C', worktree.tree_path, 'merge', '-q', '--ff-only', 'main'])
    })

    test('goes', async () => {
      const meta = await start()
      expect(await readFile(join(meta.sandbox_path, 'sub/a.txt'), 'utf8')).toBe('one\n')
      expect(await end(meta)).toBe(false)
    })

    const work: Record<string, (sub: string) => Promise<unknown>> = {
      'an edit there': (sub) => writeFile(join(sub, 'a.txt'), 'mine'),
      'a file there that git ignores': async (sub) => {
        await mkdir(join(sub, 'build'))
        await writeFile(join(sub, 'build/file'), 'mine')
      },
      'a commit on a branch there that is not checked out any more': async (sub) => {
        await git(['-C', sub, 'switch', '-q', '-c', 'mine'])
        await git(['-C', sub, 'commit', '-q', '--allow-empty', '-m', 'Mine'])
        await git(['-C', sub, 'switch', '-q', '--detach', 'HEAD~1'])
      },
      'a stash there': async (sub) => {
        await writeFile(join(sub, 'a.txt'), 'mine')
        await git(['-C', sub, 'stash', '-q'])
      },
      'a file in the place of one that is empty': (sub) => writeFile(join(sub, '../empty/file'), 'mine'),
      'anything, where git fails at one': async (sub) => {
        await writeFile(join(sub, '../a.txt'), 'mine')
        await writeFile(join(sub, '.git'), 'gitdir: /nowhere\n')
      },
    }
    for (const [what, does] of Object.entries(work)) {
      test(`stays with the user's own work, ${what}`, async () => {
        const meta = await start()
        await does(join(meta.sandbox_path, 'sub'))
        expect(await end(meta)).toBe(true)
      })
    }
  })

  test('stays with commits of the user that are on no branch', async () => {
    const meta = await start()
    const tree = meta.sandbox_path
    await git(['-C', tree, 'switch', '-q', '--detach'])
    await git(['-C', tree, 'commit', '-q', '--allow-empty', '-m', 'Mine'])
    expect(await end(meta)).toBe(true)
    expect(await gitText(tree, 'log', '-1', '--format=%s')).toBe('Mine')
  })
})

test('a tree that git cannot look at is not removed unless that is said', async () => {
  const tree = worktree.tree_path
  const made = ground.path('source')
  await git(['clone', '-q', repo, made], { env: { GIT_ALLOW_PROTOCOL: 'file' } })
  const link = `160000,${await gitText(made, 'rev-parse', 'HEAD')},sub`
  await git(['-C', tree, 'update-index', '--add', '--cacheinfo', link])
  await git(['-C', tree, 'commit', '-qm', 'Add a submodule'])
  await git(['-C', repo, 'merge', '-q', worktree.branch])
  await mkdir(join(tree, 'sub'), { recursive: true })
  await writeFile(join(tree, 'sub/.git'), 'gitdir: /nowhere\n')
  await expect(removeIntegration(ground.layout, 'feature')).rejects.toMatchObject({
    code: 'workspace.work_at_stake',
    message: expect.stringContaining('git cannot see'),
  })
  await removeIntegration(ground.layout, 'feature', { force: true })
})

for (const flag of ['skip-worktree', 'assume-unchanged']) {
  test(`an edit under ${flag} is at stake as any other: named, kept until it is said, and in the archive`, async () => {
    const tree = worktree.tree_path
    await git(['-C', tree, 'update-index', `--${flag}`, 'a.txt'])
    await writeFile(join(tree, 'a.txt'), 'mine')
    expect(await gitText(tree, 'status', '--porcelain')).toBe('')
    await expect(removeIntegration(ground.layout, 'feature')).rejects.toMatchObject({
      code: 'workspace.work_at_stake',
      message: expect.stringContaining('a.txt'),
    })
    const { id, stakes } = await removeIntegration(ground.layout, 'feature', { force: true })
    expect(stakes.uncommitted).toEqual(['a.txt'])
    expect(await gitText(repo, 'show', `refs/orangery/archive/${id}:a.txt`)).toBe('mine')
  })
}
