import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { git } from '../src/engine/base/git.ts'
import { run } from '../src/engine/base/process.ts'
import type { Contender } from './row.ts'
import { benchFolder } from './trees.ts'

/** What other tools do to give an agent a tree of its own. */
export async function worktreeAdd(root: string): Promise<Contender> {
  const path = join(await mkdtemp(join(await benchFolder(), 'worktree-')), 'tree')
  return {
    name: 'git worktree add',
    async sample() {
      await git(['worktree', 'add', '-q', '--detach', path], { cwd: root })
    },
    async reset() {
      await git(['worktree', 'remove', '--force', path], { cwd: root })
    },
  }
}

export async function plainCopy(root: string): Promise<Contender> {
  const path = join(await mkdtemp(join(await benchFolder(), 'copy-')), 'tree')
  return {
    name: 'cp -r',
    async sample() {
      const { code, stderr } = await run('cp', ['-r', root, path])
      if (code !== 0) throw new Error(stderr.toString())
    },
    reset: () => rm(path, { recursive: true, force: true }),
  }
}
