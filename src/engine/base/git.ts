import { join } from 'node:path'
import { OrangeryError } from '../../shared/errors.ts'
import { minimalEnv, run, type RunOptions, type RunResult } from './process.ts'
import type { ThroughHolder } from './throughHolder.ts'

/**
 * Our git calls never run the user's or the agent's hooks, filters, fsmonitor or configuration: `git status`
 * in a repository an agent wrote ran its fsmonitor, `git diff` its external diff. (escape: git-configuration)
 */
const hardening = [
  'core.hooksPath=/dev/null',
  'core.fsmonitor=false',
  'core.alternateRefsCommand=',
  'core.attributesFile=/dev/null',
  'core.excludesFile=/dev/null',
  'protocol.allow=never',
  // `git log` would ask the program that the configuration names for each signature.
  'log.showSignature=false',
  'gc.auto=0',
  'maintenance.auto=false',
  'safe.bareRepository=explicit',
  'safe.directory=*',
].flatMap((setting) => ['-c', setting])

const hardenedEnv: Readonly<Record<string, string>> = {
  ...minimalEnv,
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_NO_LAZY_FETCH: '1',
  GIT_NO_REPLACE_OBJECTS: '1',
  GIT_TERMINAL_PROMPT: '0',
  GIT_OPTIONAL_LOCKS: '0',
  GIT_AUTHOR_NAME: 'Orangery',
  GIT_AUTHOR_EMAIL: 'orangery@localhost',
  GIT_COMMITTER_NAME: 'Orangery',
  GIT_COMMITTER_EMAIL: 'orangery@localhost',
}

export type GitOptions = RunOptions & {
  readonly gitDir?: string
  /** Runs it where files can be read that their owner has closed to himself. */
  readonly through?: ThroughHolder
}

/** The hardened call itself, for those who talk to git over pipes. */
export function gitCommand(
  args: readonly string[],
  options: Pick<GitOptions, 'gitDir' | 'env'> = {},
): { file: string; args: string[]; env: Record<string, string> } {
  const where = options.gitDir === undefined ? [] : [`--git-dir=${options.gitDir}`]
  return { file: 'git', args: [...hardening, ...where, ...args], env: { ...hardenedEnv, ...options.env } }
}

/** Runs git hardened and gives back whatever happened. */
export function tryGit(args: readonly string[], options: GitOptions = {}): Promise<RunResult> {
  const call = gitCommand(args, options)
  const words = [call.file, ...call.args] as const
  const [file, ...rest] = options.through === undefined ? words : [...options.through.prefix, ...words]
  return run(file, rest, { ...options, env: call.env })
}

/** Runs git hardened; a failure is an error that says which call failed and what git said. */
export async function git(args: readonly string[], options: GitOptions = {}): Promise<Buffer> {
  const result = await tryGit(args, options)
  if (result.code === 0) return result.stdout
  throw gitFailed(args, result)
}

export function gitFailed(args: readonly string[], { code, signal, stderr }: RunResult): OrangeryError {
  const said = stderr.toString().trim().split('\n').at(-1) ?? ''
  return new OrangeryError('git.failed', `git ${args[0] ?? ''}: ${said || `ended with ${code ?? signal}`}`, {
    details: { args, code, stderr: stderr.toString() },
  })
}

/** A path as git takes it from a list of them: in quotes, where `:`, `#` and the end of the line are no ends. */
export function quotedPath(path: string): string {
  const octal = (one: string) =>
    [...Buffer.from(one)].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')
  return `"${path.replaceAll(/["\\\p{Cc}]/gu, octal)}"`
}

/** Lets a call read the objects of another repository too. */
export const alsoObjectsOf = (gitDir: string): Record<string, string> => ({
  GIT_ALTERNATE_OBJECT_DIRECTORIES: quotedPath(join(gitDir, 'objects')),
})
