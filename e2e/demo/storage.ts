import type { Handlers } from '../../src/shared/api.ts'
import type { DispatchId } from '../../src/shared/ids.ts'
import type { ArchiveRecord, InvocationMeta, WorktreeMeta } from '../../src/shared/invocation.ts'

type StorageHandlers = Pick<
  Handlers,
  | 'disk.use'
  | 'disk.keep_logs'
  | 'worktree.list'
  | 'worktree.get'
  | 'worktree.remove'
  | 'archive.list'
  | 'archive.restore'
  | 'workspace.orphans'
  | 'landing.list'
  | 'agent.list'
  | 'agent.discard'
>

const megabyte = 1024 * 1024
const id = '20260128120500-b7c9' as DispatchId

const worktree: WorktreeMeta = {
  schema_version: '1.0',
  worktree_id: id,
  name: 'parser',
  repo_id: '0123456789abcdef',
  common_dir: '/home/ada/shop/.git',
  repo_path: '/home/ada/shop',
  branch: 'agency/parser-b7c9',
  base_commit: 'f1edd2d9905650d724eba9a6250f77d3c360ee70',
  tree_path: `/home/ada/.local/share/orangery/repos/0123456789abcdef/worktrees/${id}/tree`,
  created_at: '2026-01-28T12:05:00Z',
  notes: [],
  outcome: null,
  archive: null,
}

const idle: InvocationMeta = {
  schema_version: '1.0',
  invocation_id: '20260128121500-c0de' as DispatchId,
  invocation_name: 'second try',
  integration_worktree_id: id,
  sandbox_path: '/home/ada/.local/share/orangery/repos/0123456789abcdef/sandboxes/20260128121500-c0de/tree',
  sandbox_branch: 'agency/sandbox-20260128121500-c0de',
  base_commit: worktree.base_commit,
  runner: 'codex',
  mode: 'headless',
  status: 'starting',
  started_at: '2026-01-28T12:15:00Z',
  strategy: 'worktree',
  driver: 'kernel-overlay',
  common_dir: '/home/ada/shop/.git',
  roots: [],
  created_at_ms: 0,
  ended_at: null,
  notes: [],
  outcome: null,
  archive: null,
}

const archived: ArchiveRecord = {
  schema_version: '1.0',
  id: '20260127101500-aa01' as DispatchId,
  repo_id: '0123456789abcdef',
  kind: 'invocation',
  name: 'first try',
  why: 'discarded',
  archived_at: '2026-01-27T11:00:00Z',
  expires_at: '2026-02-26T11:00:00Z',
  origin: '/home/ada/.local/share/orangery/repos/0123456789abcdef/sandboxes/20260127101500-aa01',
  common_dir: '/home/ada/shop/.git',
  branch: 'agency/sandbox-20260127101500-aa01',
  tip: null,
  commit: null,
}

/** A data folder with some of everything in it: logs, a worktree, something archived, something nobody knows. */
export function storageDemo(dispatch: DispatchId): StorageHandlers {
  let kept: number | null = null
  let logs = 300 * megabyte
  const worktrees = [worktree]
  const archive = [archived]
  const sandboxes = [idle]
  const entry = (meta: WorktreeMeta) => ({
    id: meta.worktree_id,
    repo_id: meta.repo_id,
    broken: false,
    why: null,
    meta,
  })
  return {
    'disk.use': async () => ({
      total: logs + 40 * megabyte,
      logs,
      logs_kept: kept,
      shared: { records: megabyte, backups: 0, objects: 30 * megabyte, other: 0 },
      dispatches: [
        {
          id: dispatch,
          name: 'Make coupons work in the cart',
          status: 'completed',
          workspace: 9 * megabyte,
          captures: megabyte,
          events: logs,
          output: 0,
          other: 0,
          total: logs + 9 * megabyte,
          unreadable: 0,
          removed: [],
        },
      ],
    }),
    'disk.keep_logs': async ({ bytes }) => {
      kept = bytes
      if (bytes === null || bytes >= logs) return { removed: [] }
      const gone = logs - bytes
      logs = bytes
      const removed_at = new Date().toISOString()
      return { removed: [{ id: dispatch, log: 'events', bytes: gone, removed_at, why: 'past the size' }] }
    },
    'worktree.list': async () => worktrees.map((each) => ({ ...entry(each), sandboxes: [] })),
    'worktree.get': async () => ({
      ...entry(worktree),
      stakes: {
        uncommitted: ['notes.md'],
        unmerged: ['5754e59 Add the parser'],
        unfinished: [],
        ignored: [],
      },
    }),
    'worktree.remove': async () => {
      worktrees.pop()
      return {
        id,
        archive: `refs/orangery/archive/${id}`,
        stakes: { uncommitted: ['notes.md'], unmerged: [], unfinished: [], ignored: [] },
      }
    },
    'archive.list': async () => archive,
    'archive.restore': async () => archive.pop() ?? archived,
    'workspace.orphans': async () => [
      {
        kind: 'branch_without_sandbox',
        id: '20260126101500-bb02',
        place: '/home/ada/shop/.git agency/sandbox-20260126101500-bb02',
        why: 'no sandbox belongs to this branch',
        hint: 'Look at it with git log, and delete it with git branch -D.',
      },
    ],
    'landing.list': async () => [],
    'agent.list': async () =>
      sandboxes.map((meta) => ({
        id: meta.invocation_id,
        repo_id: '0123456789abcdef',
        broken: false,
        why: null,
        meta,
        running: false,
      })),
    'agent.discard': async () => {
      sandboxes.pop()
      return { id: idle.invocation_id, archive: null, files: 0, commits: 0 }
    },
  }
}
