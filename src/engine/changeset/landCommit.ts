import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import type { ApplyResult } from '../../shared/changeset.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { ChangesetRecord } from '../base/changesetRecords.ts'
import { minimalEnv, run } from '../base/process.ts'
import type { Landed } from './planApply.ts'
import type { ApplyContext } from './transaction.ts'
import { fromText, joinPath, toBytes } from './bytePath.ts'
import { importCommits } from './commits.ts'
import type { Manifest } from './manifest.ts'

export type CommitRequest = {
  readonly branch: string
  readonly message?: string | undefined
  /** Takes over the commits the agent made instead of making one. */
  readonly own: boolean
  /** Runs the user's own hooks, which need the branch to be the one that is checked out. */
  readonly hooks: boolean
}

/** What follows the files: the agent's commits under our refs, and the commit the user asked for. */
export async function landCommit(
  context: ApplyContext,
  record: ChangesetRecord,
  manifest: Manifest,
  applied: { result: ApplyResult; landed: readonly Landed[] },
  request: CommitRequest | undefined,
): Promise<ApplyResult> {
  const { result, landed } = applied
  if (landed.length === 0) return result
  const notes = await importCommits(manifest, record.workspace, context.layout.objects(record.repoId))
  const noted = notes.length === 0 ? result : { ...result, notes }
  if (request === undefined) return noted
  try {
    const commit = request.own ? await takeOver(manifest, request) : await makeCommit(record, landed, request)
    return { ...noted, commit }
  } catch (error) {
    // The files have landed; a commit that could not be made takes nothing of that back.
    return {
      ...noted,
      notes: [...notes, `no commit was made: ${error instanceof Error ? error.message : String(error)}`],
    }
  }
}

/** The user's git with the user's identity and filters, but no hooks: nobody asked for those. */
async function userGit(
  args: readonly string[],
  options: { cwd: string; hooks?: boolean; env?: Record<string, string>; input?: Buffer },
): Promise<string> {
  const env: Record<string, string> = { ...minimalEnv }
  for (const name of ['HOME', 'XDG_CONFIG_HOME', 'USER', 'GNUPGHOME', 'SSH_AUTH_SOCK', 'EMAIL']) {
    const value = process.env[name]
    if (value !== undefined) env[name] = value
  }
  const quiet = options.hooks === true ? [] : ['-c', 'core.hooksPath=/dev/null']
  const result = await run('git', ['-c', 'core.fsmonitor=false', ...quiet, ...args], {
    cwd: options.cwd,
    env: { ...env, ...options.env },
    ...(options.input === undefined ? {} : { input: options.input }),
  })
  if (result.code === 0) return result.stdout.toString().trim()
  throw new OrangeryError(
    'changeset.commit_failed',
    `git ${args[0]}: ${result.stderr.toString().trim().split('\n').at(-1)}`,
  )
}

async function makeCommit(
  record: ChangesetRecord,
  landed: readonly Landed[],
  { branch, message, hooks }: CommitRequest,
): Promise<{ root: string; branch: string; oid: string }> {
  const root = landed[0]?.target.entry.root ?? ''
  const top = await userGit(['rev-parse', '--show-toplevel'], { cwd: root })
  const prefix = fromText(relative(top, root))
  const paths = landed
    .filter(
      ({ target, wanted }) =>
        target.entry.root === root && (wanted ?? target.entry.base)?.kind !== 'directory',
    )
    .map(({ target }) => toBytes(joinPath(prefix, target.entry.path)))
  const input = Buffer.concat(paths.flatMap((path) => [path, Buffer.from([0])]))
  const text = message ?? `Apply changeset ${record.id}`
  const ref = `refs/heads/${branch}`
  await userGit(['check-ref-format', ref], { cwd: top })
  const current = await userGit(['symbolic-ref', '-q', 'HEAD'], { cwd: top }).catch(() => '')
  if (hooks) {
    if (current !== ref)
      throw new OrangeryError(
        'changeset.hooks_elsewhere',
        `hooks run only on the branch that is checked out, not on ${branch}`,
      )
    const fromInput = ['--pathspec-from-file=-', '--pathspec-file-nul']
    const env = { GIT_LITERAL_PATHSPECS: '1' }
    await userGit(['add', '-A', '-f', ...fromInput], { cwd: top, hooks: true, input, env })
    await userGit(['commit', '-q', '-m', text, '--only', ...fromInput], { cwd: top, hooks: true, input, env })
    return { root, branch, oid: await userGit(['rev-parse', 'HEAD'], { cwd: top }) }
  }
  const verify = (name: string) =>
    userGit(['rev-parse', '--verify', '-q', `${name}^{commit}`], { cwd: top }).catch(() => '')
  const old = await verify(ref)
  const parent = old || (await verify('HEAD'))
  const folder = await mkdtemp(join(tmpdir(), 'orangery-index-'))
  try {
    const env = { GIT_INDEX_FILE: join(folder, 'index') }
    if (parent !== '') await userGit(['read-tree', parent], { cwd: top, env })
    await userGit(['update-index', '--add', '--remove', '-z', '--stdin'], { cwd: top, env, input })
    const tree = await userGit(['write-tree'], { cwd: top, env })
    const parents = parent === '' ? [] : ['-p', parent]
    const oid = await userGit(['commit-tree', tree, ...parents, '-m', text], { cwd: top })
    await userGit(
      ['update-ref', '-m', `orangery: changeset ${record.id}`, ref, oid, old || '0'.repeat(oid.length)],
      { cwd: top },
    )
    if (current === ref)
      await userGit(['update-index', '--add', '--remove', '-z', '--stdin'], { cwd: top, input })
    return { root, branch, oid }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Points a branch at the last commit the agent made; only forwards, and never the branch that is checked out. */
async function takeOver(
  manifest: Manifest,
  { branch }: CommitRequest,
): Promise<{ root: string; branch: string; oid: string }> {
  const commit = manifest.commits.find(({ submodule }) => submodule === undefined)
  if (commit === undefined) throw new OrangeryError('changeset.no_commits', 'the agent made no commits')
  const cwd = commit.root
  const ref = `refs/heads/${branch}`
  await userGit(['check-ref-format', ref], { cwd })
  const current = await userGit(['symbolic-ref', '-q', 'HEAD'], { cwd }).catch(() => '')
  if (current === ref)
    throw new OrangeryError('changeset.branch_in_use', `${branch} is checked out: name another branch`)
  const old = await userGit(['rev-parse', '--verify', '-q', ref], { cwd }).catch(() => '')
  if (old !== '') await userGit(['merge-base', '--is-ancestor', old, commit.oid], { cwd })
  await userGit(
    ['update-ref', '-m', `orangery: changeset ${manifest.id}`, ref, commit.oid, old || '0'.repeat(40)],
    { cwd },
  )
  return { root: commit.root, branch, oid: commit.oid }
}
