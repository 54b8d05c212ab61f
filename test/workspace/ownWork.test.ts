import { appendFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
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
import { workspaceOf } from '../../src/engine/workspace/invocation.ts'

let { ground, repo, worktree, repoId, start } = {} as Feature
beforeEach(async () => {
  ;({ ground, repo, worktree, repoId, start } = await makeFeature())
})
afterEach(() => ground[Symbol.asyncDispose]())

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

  test('stays with commits of the user that are on no branch', async () => {
    const meta = await start()
    const tree = meta.sandbox_path
    await git(['-C', tree, 'switch', '-q', '--detach'])
    await git(['-C', tree, 'commit', '-q', '--allow-empty', '-m', 'Mine'])
    expect(await end(meta)).toBe(true)
    expect(await gitText(tree, 'log', '-1', '--format=%s')).toBe('Mine')
  })
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
