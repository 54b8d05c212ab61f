import { resolve } from 'node:path'
import { waysBelow } from '../../base/obeyed.ts'
import { fromText } from '../bytePath.ts'
import { gitPartOf } from './classify.ts'
import { isProtectedPath } from './protectedPaths.ts'
import { askGit, userGit } from '../commits/userGit.ts'

/**
 * Patterns for the folders that the user's own configuration has git take its hooks from. An agent that slipped a
 * `pre-commit` into one with "approve all" would run at his next commit.
 */
export async function hooksFolders(roots: readonly string[]): Promise<readonly string[]> {
  return (await Promise.all(roots.map(hooksFolderOf))).flat()
}

async function hooksFolderOf(root: string): Promise<readonly string[]> {
  const ask = ['config', '--type=path', '--get', 'core.hooksPath']
  const named = await userGit(ask, { cwd: root, hooks: true }).catch(() => '')
  if (named === '') return []
  // Git starts hooks at the top of the work tree, and looks for them from there.
  const top = await askGit(['rev-parse', '--show-toplevel'], root)
  const names = await waysBelow(root, resolve(top === '' ? root : top, named))
  return names.filter((name) => !isKnown(root, name)).map((name) => (name === '**' ? name : `${name}/**`))
}

/** Each pattern with a `/` costs a look at every link. */
function isKnown(root: string, name: string): boolean {
  const path = fromText(`${name}/pre-commit`)
  return gitPartOf(path) !== null || isProtectedPath(root, path)
}
