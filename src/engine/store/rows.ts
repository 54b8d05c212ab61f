import { sql } from 'drizzle-orm'
import { boundaryLevels, type BoundaryLevel } from '../../shared/boundary.ts'
import { dispatchStatuses, type DispatchDetail, type DispatchRow } from '../../shared/dispatch.ts'
import type { RepoId } from '../../shared/ids.ts'
import { sandboxLevels, type SandboxLevel } from '../../shared/level.ts'
import { changesets, dispatches } from './schema.ts'

/** A dispatch as the engine needs it: what people see, and what recovery and proof go by. */
export type StoredDispatch = DispatchDetail & {
  readonly repoId: RepoId | null
  readonly supervisorPid: number | null
  readonly supervisorStartTicks: number | null
  readonly lastEventHash: string | null
  readonly sandboxSpecText: string | null
}

/** Keys are the columns' own names: results come straight from SQLite, under the names it gives them. */
export const rowColumns = {
  id: dispatches.id,
  parent_id: dispatches.parentId,
  name: dispatches.name,
  agent: dispatches.agent,
  role: dispatches.role,
  phase: dispatches.phase,
  prompt: dispatches.prompt,
  status: dispatches.status,
  sandbox: dispatches.sandbox,
  exit_code: dispatches.exitCode,
  error: dispatches.error,
  created_at: dispatches.createdAt,
  started_at: dispatches.startedAt,
  ended_at: dispatches.endedAt,
  level: dispatches.level,
  boundary: dispatches.boundary,
  roots: dispatches.roots,
  command: dispatches.command,
  changeset_id: sql<string | null>`${changesets.id}`.as('changeset_id'),
  state: changesets.state,
  files: changesets.files,
  insertions: changesets.insertions,
  deletions: changesets.deletions,
}
export const detailColumns = {
  ...rowColumns,
  repo_id: dispatches.repoId,
  supervisor_pid: dispatches.supervisorPid,
  supervisor_start_ticks: dispatches.supervisorStartTicks,
  last_event_hash: dispatches.lastEventHash,
  sandbox_spec: dispatches.sandboxSpec,
  sandbox_effective: dispatches.sandboxEffective,
}

/** What a query may find: rows of any age, by programs that were free with types and words. */
export type Found<Columns> = { readonly [K in keyof Columns]: string | number | null }

/** Unknown or broken JSON of another program must not take the whole list down with it. */
function parseJson(text: unknown): unknown {
  if (Buffer.isBuffer(text)) return text.toString('utf8')
  if (typeof text !== 'string') return text ?? null
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function parseList(text: unknown): string[] {
  const list = text === '[]' ? [] : parseJson(text)
  return Array.isArray(list) ? list.map(String) : []
}

const text = (value: string | number | null): string | null => (value === null ? null : String(value))
const number = (value: string | number | null): number | null => (typeof value === 'number' ? value : null)

const firstMilliseconds = 100_000_000_000

/** Times are ISO text; some programs kept seconds or milliseconds, which a column of text holds as digits. */
function time(value: string | number | null): string | null {
  // Fewer digits are a year.
  if (typeof value === 'string' && !/^\d{9,}(\.\d+)?$/.test(value)) return value
  if (value === null) return null
  const count = Number(value)
  const date = new Date(count < firstMilliseconds ? count * 1000 : count)
  return Number.isNaN(date.getTime()) ? String(value) : date.toISOString()
}

const knownStatuses: ReadonlySet<unknown> = new Set(dispatchStatuses)
const knownLevels: ReadonlySet<unknown> = new Set(sandboxLevels)
const knownBoundaries: ReadonlySet<unknown> = new Set(boundaryLevels)

export function toRow(found: Found<typeof rowColumns>): DispatchRow {
  const id = String(found.id) as DispatchRow['id']
  return {
    id,
    parent_id: text(found.parent_id),
    name: text(found.name),
    agent: text(found.agent) ?? '',
    role: text(found.role),
    phase: text(found.phase),
    prompt: text(found.prompt),
    // A word of another program: nothing of ours runs for it, and how it ended is unknown.
    ...(knownStatuses.has(found.status)
      ? { status: found.status as DispatchRow['status'] }
      : { status: 'interrupted', recorded_status: String(found.status) }),
    sandbox: text(found.sandbox),
    exit_code: number(found.exit_code),
    error: text(found.error),
    created_at: time(found.created_at) ?? '',
    started_at: time(found.started_at),
    ended_at: time(found.ended_at),
    level: knownLevels.has(found.level) ? (found.level as SandboxLevel) : null,
    boundary: knownBoundaries.has(found.boundary) ? (found.boundary as BoundaryLevel) : null,
    roots: parseList(found.roots),
    command: parseList(found.command),
    changeset:
      found.state === null
        ? null
        : {
            id: String(found.changeset_id) as DispatchRow['id'],
            state: found.state as NonNullable<DispatchRow['changeset']>['state'],
            files: number(found.files) ?? 0,
            insertions: number(found.insertions) ?? 0,
            deletions: number(found.deletions) ?? 0,
          },
  }
}

export function toStored(found: Found<typeof detailColumns>): StoredDispatch {
  return {
    ...toRow(found),
    sandbox_spec: parseJson(found.sandbox_spec),
    sandbox_effective: parseJson(found.sandbox_effective),
    repoId: found.repo_id as RepoId | null,
    supervisorPid: number(found.supervisor_pid),
    supervisorStartTicks: number(found.supervisor_start_ticks),
    lastEventHash: text(found.last_event_hash),
    sandboxSpecText: text(found.sandbox_spec),
  }
}
