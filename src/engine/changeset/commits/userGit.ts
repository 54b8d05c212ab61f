import { OrangeryError } from '../../../shared/errors.ts'
import { gitFailed } from '../../base/git.ts'
import type { RunGit } from '../../base/indexRows.ts'
import { minimalEnv, run } from '../../base/process.ts'

type UserGitOptions = {
  readonly cwd: string
  readonly hooks?: boolean
  readonly env?: Readonly<Record<string, string>>
  readonly input?: Buffer | string
}

/** The user's git with the user's identity and filters, but no hooks: nobody asked for those. */
export async function userGitBytes(args: readonly string[], options: UserGitOptions): Promise<Buffer> {
  const env: Record<string, string> = { ...minimalEnv }
  for (const name of ['HOME', 'XDG_CONFIG_HOME', 'USER', 'GNUPGHOME', 'GPG_TTY', 'SSH_AUTH_SOCK', 'EMAIL']) {
    const value = process.env[name]
    if (value !== undefined) env[name] = value
  }
  const quiet = options.hooks === true ? [] : ['-c', 'core.hooksPath=/dev/null']
  const result = await run('git', ['-c', 'core.fsmonitor=false', ...quiet, ...args], {
    cwd: options.cwd,
    env: { ...env, ...options.env },
    ...(options.input === undefined ? {} : { input: options.input }),
  })
  if (result.code === 0) return result.stdout
  // A full disk, or a folder that may not be written: nothing is wrong with what was asked for.
  const failure = gitFailed(args, result)
  if (failure.kind === 'cannot_create') throw failure
  if (
    /tell me who you are|unable to auto-detect|empty ident name|no email was given/.test(
      result.stderr.toString(),
    )
  )
    throw new OrangeryError('changeset.commit_failed', `git ${args[0]}: git does not know who you are`, {
      kind: 'input',
      hint: 'Tell it with `git config --global user.name NAME` and `git config --global user.email ADDRESS`, then try again.',
    })
  const said = result.stderr.toString().trim().split('\n').at(-1) ?? ''
  const hook = options.hooks === true ? ', as it does where a hook refuses' : ''
  const why = said === '' ? `ended with ${result.code} and without a word${hook}` : said
  throw new OrangeryError('changeset.commit_failed', `git ${args[0]}: ${why}`, { kind: 'input' })
}

/** The same, in one work tree. */
export const userGitIn =
  (cwd: string): RunGit =>
  (args, options = {}) =>
    userGitBytes(args, { cwd, ...options })

export async function userGit(args: readonly string[], options: UserGitOptions): Promise<string> {
  return (await userGitBytes(args, options)).toString().trim()
}

/** What git answers, or nothing where it has no answer. */
export const askGit = (args: readonly string[], cwd: string): Promise<string> =>
  userGit(args, { cwd }).catch(() => '')

/** Who the user is to git there; ourselves where git does not know. */
export async function userIdentity(cwd: string): Promise<{ name: string; email: string }> {
  const ask = async (key: string) => (await askGit(['config', '--get', key], cwd)).replaceAll(/[\r\n<>]/g, '')
  const [name, email] = [await ask('user.name'), await ask('user.email')]
  return name === '' || email === '' ? { name: 'Orangery', email: 'orangery@localhost' } : { name, email }
}

export const noCommit = (oid: string): string => '0'.repeat(oid.length)

/** Asks git for the branch without taking it: a name that is in the way of another one is told before anything lands. */
export async function tryRef(
  cwd: string,
  { ref, oid, old }: { ref: string; oid: string; old: string },
): Promise<void> {
  const input = `start\nupdate ${ref} ${oid} ${old || noCommit(oid)}\nprepare\nabort\n`
  try {
    await userGit(['update-ref', '--stdin'], { cwd, input })
  } catch (error) {
    const told = error instanceof Error ? error.message : String(error)
    const branch = ref.replace('refs/heads/', '')
    const why = told.replace(/^.*cannot lock ref '[^']*': /, '')
    throw new OrangeryError('changeset.commit_failed', `git does not take the branch ${branch}: ${why}`, {
      kind: 'input',
      hint: 'Nothing was changed. Name another branch, or try again if another git is at it.',
    })
  }
}
