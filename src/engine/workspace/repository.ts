import { OrangeryError } from '../../shared/errors.ts'
import { git, tryGit, type GitOptions } from '../base/git.ts'
import { assertOwnGit } from '../base/ownGit.ts'
import type { RunResult } from '../base/process.ts'
import { isFolder } from './scan.ts'

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

/** With a checkout also what the configuration says only there is switched off. */
export async function openRepository(commonDir: string, checkout?: string): Promise<Repository> {
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
  const settings = await tamedSettings([
    { gitDir: commonDir },
    ...(checkout === undefined ? [] : [{ cwd: checkout }]),
  ])
  const where = (options: GitOptions): GitOptions =>
    options.cwd === undefined ? { ...options, gitDir: commonDir } : options
  const repository: Repository = {
    commonDir,
    try: (args, options = {}) => tryGit([...settings, ...args], where(options)),
    raw: (args, options = {}) =>
      git([...settings, ...args], where(options)).catch((error: unknown) => rethrow(error, args)),
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

function rethrow(error: unknown, args: readonly string[]): never {
  if (!(error instanceof OrangeryError)) throw error
  const message = error.message.replace(/^git -c:/, `git ${args[0] ?? ''}:`)
  throw new OrangeryError(error.code, message, { kind: error.kind, details: error.details, cause: error })
}

// Attributes of a tree an agent wrote choose which of the user's filter, merge and diff programs run, and on
// what: each that the repository's own configuration names is switched off. (escape: git-drivers)
async function tamedSettings(places: readonly GitOptions[]): Promise<string[]> {
  const drivers = new Set<string>()
  for (const place of places) {
    const listed = await tryGit(
      ['config', '-z', '--name-only', '--get-regexp', '^(filter|merge|diff)\\..+\\..+'],
      place,
    )
    for (const key of listed.stdout.toString().split('\0')) {
      const end = key.lastIndexOf('.')
      if (end > 0) drivers.add(key.slice(0, end))
    }
  }
  const settings: string[] = []
  for (const driver of drivers) {
    // An `=` in the name would end it early on the command line.
    if (driver.includes('=')) {
      throw new OrangeryError(
        'workspace.odd_git_config',
        `git configuration: the name ${driver} holds an "="`,
        {
          kind: 'refused',
          hint: 'Rename it; it cannot be switched off while Orangery works on the repository.',
        },
      )
    }
    if (driver.startsWith('filter.')) {
      settings.push(`${driver}.process=`, `${driver}.clean=`, `${driver}.smudge=`, `${driver}.required=false`)
    } else if (driver.startsWith('merge.')) settings.push(`${driver}.driver=false`)
    else settings.push(`${driver}.command=`, `${driver}.textconv=`)
  }
  return settings.flatMap((setting) => ['-c', setting])
}
