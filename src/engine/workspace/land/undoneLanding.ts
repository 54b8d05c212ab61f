import { shellLine } from '../../../shared/shellLine.ts'
import type { Workspace } from '../../base/workspace.ts'
import { isWithin, landingOf, trailerOf } from './landing.ts'
import { openRepository } from '../git/repository.ts'

/**
 * What to know once the files of a landing were taken back: a branch is the user's, and others may have built on it,
 * so its commit stays. `git revert` would refuse, since the files are as it wants to make them; the index is not.
 * `landed` are the paths that are still landed: where the commit has one of them, taking it back would take that too.
 */
export async function landingStays(
  { id, strategy, roots }: Workspace,
  landed: () => Promise<readonly Buffer[]>,
): Promise<string[]> {
  const tree = roots.find(({ role }) => role === 'project')?.path
  const commonDir = roots.find(({ role }) => role === 'git')?.path
  if (strategy !== 'worktree' || tree === undefined || commonDir === undefined) return []
  const repository = await openRepository(commonDir)
  const branch = await repository.git(['symbolic-ref', '--short', 'HEAD'], { cwd: tree })
  const ask = async (...args: string[]) =>
    (await repository.try([...args, `refs/heads/${branch}`, '--'])).stdout.toString().split('\n')
  const logged = (await ask('log', '-g', '--format=%H %gs')).find((line) =>
    line.endsWith(` ${landingOf(id)}`),
  )
  const [named] = await ask('log', '-1', '--format=%H', '--fixed-strings', `--grep=${trailerOf(id)}`)
  const commit = logged?.split(' ')[0] ?? named ?? ''
  if (commit === '' || !(await isWithin(repository, commit, `refs/heads/${branch}`))) return []
  const short = commit.slice(0, 12)
  const changed = await repository.raw(['diff-tree', '-r', '-z', '--name-only', `${commit}^`, commit])
  const names = new Set(changed.toString('latin1').split('\0'))
  if ((await landed()).some((path) => names.has(path.toString('latin1'))))
    return [`the commit ${short} stays on ${branch}, with what was not taken back`]
  const git = shellLine(['git', '-C', tree])
  // Not `git diff`: that writes as the user likes to read, and no longer what can be applied.
  const takeBack = `${git} diff-tree -p --binary --no-color --no-ext-diff --no-textconv ${short} ${short}^ | ${git} apply --cached --whitespace=nowarn`
  return [
    `the files are as they were; the commit ${short} stays on ${branch}, and this takes it back there: ${takeBack} && ${git} commit -m ${shellLine([`Take back ${short}`])}`,
  ]
}
