import type { ApplyResult, Changeset, ChangesetState, Verdict } from '../../shared/changeset.ts'
import type { ChangesetSummary } from '../../shared/dispatch.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { DispatchId } from '../../shared/ids.ts'
import type { Layout } from '../base/paths.ts'
import type { Workspace } from '../base/workspace.ts'

// The door's shape until the station itself is landed; every call says so.
type Ended = { id: DispatchId; state: ChangesetState }
type Captured = { revision: string; files: number; insertions: number; deletions: number }
type DecideInput = {
  root?: string | undefined
  path: string
  hunk?: string | undefined
  verdict: Verdict | null
  comment?: string | undefined
}
export interface Changesets {
  capture(workspace: Workspace, options: { final: boolean; signal?: AbortSignal }): Promise<Captured | null>
  list(): Promise<ChangesetSummary[]>
  get(id: DispatchId): Promise<Changeset>
  diff(
    id: DispatchId,
    options: { root?: string | undefined; path?: string | undefined; stat?: boolean },
  ): Promise<{ revision: string; text: string; truncated: boolean }>
  decide(id: DispatchId, input: DecideInput, by: string): Promise<Changeset>
  apply(
    id: DispatchId,
    options: { all: boolean; include_ignored: boolean; revision?: string | undefined },
    by: string,
  ): Promise<ApplyResult>
  undo(id: DispatchId, by: string): Promise<ApplyResult>
  reject(id: DispatchId, comment: string, by: string): Promise<Ended>
  abandon(id: DispatchId, by: string): Promise<Ended>
  recover(): Promise<void>
}
export function createChangesets(_options: { layout: Layout; records: never }): Changesets {
  const missing = async () => {
    throw new OrangeryError('changeset.not_built', 'changesets: not built yet')
  }
  return {
    capture: async () => null,
    list: async () => [],
    get: missing,
    diff: missing,
    decide: missing,
    apply: missing,
    undo: missing,
    reject: missing,
    abandon: missing,
    recover: async () => {},
  }
}
