import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import { gitFailedAt, tryGit, type GitOptions } from '../../base/git.ts'
import { assertOwnGit } from '../../base/ownGit.ts'
import type { RunResult } from '../../base/process.ts'
import { tame, type Tamed } from '../../base/tame.ts'
import { isFolder } from '../find/scan.ts'

/** The user's repository as we may use it: hardened, and with its filters and drivers switched off. */
export interface Repository {
  readonly commonDir: string
  /** Runs on the repository itself, or in one of its checkouts with `cwd`. */
  git(args: readonly string[], options?: GitOptions): Promise<string>
  try(args: readonly string[], options?: GitOptions): Promise<RunResult>
  raw(args: readonly string[], options?: GitOptions): Promise<Buffer>
  /** The commit a name stands for, or null. */
  commit(name: string): Promise<string | null>
}

export async function openRepository(commonDir: string): Promise<Repository> {
  if (!(await isFolder(commonDir))) {
    throw new OrangeryError(
      'workspace.repository_gone',
      `${commonDir}: the repository is not there any more`,
      {
        kind: 'not_found',
        hint: 'Put it back where it was. `orangery agent discard` and `orangery worktree rm --force` work without it.',
      },
    )
  }
  await assertOwnGit(commonDir)
  // One checkout may be configured otherwise than the next (`includeIf`, `config.worktree`), so each is asked itself,
  // once: whoever puts it on another branch opens the repository anew.
  const asked = new Map<string, Promise<Tamed>>()
  const tamedAt = (place: GitOptions): Promise<Tamed> => {
    const key = [place.cwd, place.env?.['GIT_DIR'], place.through?.prefix.join(' ')].join('\0')
    const known = asked.get(key) ?? tame(place)
    asked.set(key, known)
    return known
  }
  const repository: Repository = {
    commonDir,
    async try(args, options = {}) {
      const place = options.cwd === undefined ? { ...options, gitDir: commonDir } : options
      const { settings, failed } = await tamedAt(placeOf(place))
      return failed ?? tryGit([...settings, ...args], await inOwnTree(place))
    },
    async raw(args, options = {}) {
      const result = await repository.try(args, options)
      if (result.code === 0) return result.stdout
      throw await gitFailedAt(options.cwd ?? commonDir, args, result)
    },
    git: async (args, options = {}) => (await repository.raw(args, options)).toString().replace(/\n$/, ''),
    async commit(name) {
      const found = await repository.try([
        'rev-parse',
        '-q',
        '--verify',
        '--end-of-options',
        `${name}^{commit}`,
      ])
      return found.code === 0 ? found.stdout.toString().trim() : null
    },
  }
  return repository
}

// With `extensions.worktreeConfig` a linked checkout obeys the `core.worktree` of the whole repository, and a `reset`
// in a tree of ours wrote the repository's files over the user's home. (escape: git-configuration)
async function inOwnTree(place: GitOptions): Promise<GitOptions> {
  if (place.cwd === undefined) return place
  const link = await lstat(join(place.cwd, '.git')).catch(() => null)
  return link?.isFile() === true ? { ...place, env: { ...place.env, GIT_WORK_TREE: place.cwd } } : place
}

/** What of a call decides which configuration git reads. */
const placeOf = ({ cwd, gitDir, env, through }: GitOptions): GitOptions => ({
  ...(cwd === undefined ? {} : { cwd }),
  ...(gitDir === undefined ? {} : { gitDir }),
  ...(env?.['GIT_DIR'] === undefined ? {} : { env: { GIT_DIR: env['GIT_DIR'] } }),
  ...(through === undefined ? {} : { through }),
})
