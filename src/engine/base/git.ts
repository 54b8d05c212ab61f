import { existsSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { OrangeryError } from '../../shared/errors.ts'
import { fullDisk, refusalInText } from '../../shared/hostRefusal.ts'
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

/** Whom our own calls sign with, in what they commit and in the way a branch went. */
export const ownEmail = 'orangery@localhost'

const hardenedEnv: Readonly<Record<string, string>> = {
  ...minimalEnv,
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_NO_LAZY_FETCH: '1',
  GIT_NO_REPLACE_OBJECTS: '1',
  GIT_TERMINAL_PROMPT: '0',
  GIT_OPTIONAL_LOCKS: '0',
  GIT_AUTHOR_NAME: 'Orangery',
  GIT_AUTHOR_EMAIL: ownEmail,
  GIT_COMMITTER_NAME: 'Orangery',
  GIT_COMMITTER_EMAIL: ownEmail,
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
  // Where we stand may be gone, and git goes nowhere from there.
  const cwd = options.cwd ?? '/'
  return run(file, rest, { ...options, cwd, env: call.env }).catch((error: unknown) => {
    const { path, code } = error as NodeJS.ErrnoException
    // EACCES: a folder of PATH is closed, or what is there nobody may run.
    const isMissing = path === 'git' && (code === 'ENOENT' || code === 'EACCES')
    // A working directory that is gone is told with the same words.
    if (!isMissing || !existsSync(cwd)) throw error
    throw new OrangeryError(gitMissing, 'git: not installed on this host', {
      kind: 'preflight',
      hint: 'sudo apt install git',
      cause: error,
    })
  })
}

export const gitMissing = 'git.missing'

/** Runs git hardened; a failure is an error that says which call failed and what git said. */
export async function git(args: readonly string[], options: GitOptions = {}): Promise<Buffer> {
  const result = await tryGit(args, options)
  if (result.code === 0) return result.stdout
  throw gitFailed(args, result)
}

/** The objects are ours: whoever reads that they are gone can do nothing about git. */
const isDamage = (said: string) =>
  /unable to read|bad object|loose object|inflate:|packed object .* is corrupt|missing (?:blob|tree|commit)/i.test(
    said,
  )

export function gitFailed(args: readonly string[], { code, signal, stderr }: RunResult): OrangeryError {
  const text = stderr.toString().trim()
  // A full disk is told on the way, and last of all only what came of it.
  const refusal = refusalInText(text)
  const said = refusal?.line ?? text.split('\n').at(-1) ?? ''
  const damage = isDamage(said)
    ? 'A file in the data folder is damaged. Check the disk, and bring the data folder back from a backup.'
    : undefined
  const hint = refusal?.hint ?? damage
  return new OrangeryError('git.failed', `git ${verbOf(args)}: ${said || `ended with ${code ?? signal}`}`, {
    ...(refusal === null ? {} : { kind: 'cannot_create' }),
    details: { args, code, stderr: stderr.toString() },
    ...(hint === undefined ? {} : { hint }),
  })
}

/** The command, behind settings that are given before it. */
function verbOf(args: readonly string[]): string {
  const at = args.findIndex(
    (arg, index) => !arg.startsWith('-') && !['-c', '-C'].includes(args[index - 1] ?? ''),
  )
  return args[at] ?? ''
}

/** The same, where git has not said that the place it wrote to is full. */
export async function gitFailedAt(
  place: string,
  args: readonly string[],
  result: RunResult,
): Promise<OrangeryError> {
  const failed = gitFailed(args, result)
  const room = failed.kind === 'internal' ? await statfs(place).catch(() => null) : null
  // Some file systems count nothing.
  if (room === null || room.blocks === 0 || room.bavail > 0) return failed
  return new OrangeryError(failed.code, `${failed.message} (no space is left at ${place})`, {
    kind: 'cannot_create',
    ...fullDisk,
    details: failed.details,
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
