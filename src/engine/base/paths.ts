import { createHash } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { homedir, platform } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import type { DispatchId, RepoId } from '../../shared/ids.ts'

type Environment = Readonly<Record<string, string | undefined>>

export function defaultDataDir(env: Environment = process.env): string {
  return realFolder(env['ORANGERY_DATA_DIR'] || usualDataDir(env))
}

function usualDataDir(env: Environment): string {
  if (platform() === 'darwin') return join(homedir(), 'Library', 'Application Support', 'Orangery')
  return join(env['XDG_DATA_HOME'] || join(homedir(), '.local', 'share'), 'orangery')
}

/**
 * Where a folder really lies, also one that is not there yet or not any more: git and the kernel name it so, whatever
 * links lead there, and what is recorded must still hold in another working directory.
 */
export function realFolder(path: string): string {
  const whole = resolve(path)
  try {
    return realpathSync(whole)
  } catch {
    const above = dirname(whole)
    return above === whole ? whole : join(realFolder(above), basename(whole))
  }
}

export function defaultConfigDir(env: Environment = process.env): string {
  return join(env['XDG_CONFIG_HOME'] || join(homedir(), '.config'), 'orangery')
}

/** Where everything lies under the data folder. Nothing else builds these paths. */
export function layout(dataDir: string) {
  const repo = (repoId: RepoId) => join(dataDir, 'repos', repoId)
  return {
    dataDir,
    database: join(dataDir, 'orangery.db'),
    backups: join(dataDir, 'backups'),
    log: join(dataDir, 'orangery.log'),
    locks: join(dataDir, 'locks'),
    archive: join(dataDir, 'archive'),
    homes: join(dataDir, 'homes'),
    repos: join(dataDir, 'repos'),
    repo,
    /** Bare repository with the base and result trees of every changeset of the project. */
    objects: (repoId: RepoId) => join(repo(repoId), 'objects.git'),
    /** Captures, journals and review drafts of one changeset. */
    changeset: (repoId: RepoId, id: DispatchId) => join(repo(repoId), 'changesets', id),
    invocations: (repoId: RepoId) => join(repo(repoId), 'invocations'),
    invocation: (repoId: RepoId, id: DispatchId) => join(repo(repoId), 'invocations', id),
    invocationMeta: (repoId: RepoId, id: DispatchId) => join(repo(repoId), 'invocations', id, 'meta.json'),
    events: (repoId: RepoId, id: DispatchId) => join(repo(repoId), 'invocations', id, 'events.ndjson'),
    output: (repoId: RepoId, id: DispatchId) => join(repo(repoId), 'invocations', id, 'output.log'),
    sandboxes: (repoId: RepoId) => join(repo(repoId), 'sandboxes'),
    sandbox: (repoId: RepoId, id: DispatchId) => join(repo(repoId), 'sandboxes', id),
    sandboxTree: (repoId: RepoId, id: DispatchId) => join(repo(repoId), 'sandboxes', id, 'tree'),
    worktrees: (repoId: RepoId) => join(repo(repoId), 'worktrees'),
    worktree: (repoId: RepoId, id: DispatchId) => join(repo(repoId), 'worktrees', id),
    worktreeMeta: (repoId: RepoId, id: DispatchId) => join(repo(repoId), 'worktrees', id, 'meta.json'),
    worktreeTree: (repoId: RepoId, id: DispatchId) => join(repo(repoId), 'worktrees', id, 'tree'),
  } as const
}
export type Layout = ReturnType<typeof layout>

/** First 16 hex digits of SHA-256 of the real path of the git common dir, or of the first root. */
export function repoIdOf(realPath: string): RepoId {
  return createHash('sha256').update(realPath).digest('hex').slice(0, 16) as RepoId
}
