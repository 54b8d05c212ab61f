import type { BoundaryLevel, Phase } from '../../shared/boundary.ts'
import type { BoundaryGrant, BoundaryRequest, TaskApproval } from '../../shared/escalation.ts'
import type { DispatchId } from '../../shared/ids.ts'

/** What a call that an agent asks leave for would need of the boundary. */
export type Need =
  | { readonly kind: 'nothing' }
  /** Without paths where the agent names none. */
  | { readonly kind: 'write'; readonly paths: readonly string[] }
  | { readonly kind: 'reach'; readonly hosts: readonly string[] }

/** Everything the escalation of one dispatch goes by. */
export type EscalationState = {
  readonly dispatch: DispatchId
  /** The dispatch at the root of the family: what "for this task" means. */
  readonly task: string
  readonly agent: string
  readonly phase: Phase | null
  readonly roots: readonly string[]
  readonly running: boolean
  /** The boundary it started with. */
  readonly start: BoundaryLevel
  /** Oldest first; the last one says what holds. */
  readonly grants: readonly BoundaryGrant[]
  readonly requests: readonly BoundaryRequest[]
  readonly taskApprovals: readonly TaskApproval[]
  /** From its parent to the oldest on record: what each of them has now. */
  readonly ancestors: readonly Ancestor[]
}

export type Ancestor = Pick<EscalationState, 'dispatch' | 'roots' | 'start' | 'grants' | 'requests'>

/** Where requests, grants and the approvals of a task are kept. One change is one transaction, across processes. */
export interface EscalationRecords {
  read(id: DispatchId): EscalationState
  /** Hands the state to `change` and writes what it gives back; nothing is written where it throws. */
  change<T>(id: DispatchId, change: (state: EscalationState) => { state: EscalationState; result: T }): T
  /** Open requests of all dispatches, oldest first. */
  openRequests(): readonly BoundaryRequest[]
  /** Of tasks in which somebody is at work, or something can be sent back. */
  taskApprovals(): readonly TaskApproval[]
  revokeTaskApproval(id: string, at: string): boolean
  /** Children that are starting or running, and theirs. */
  descendants(id: DispatchId): readonly DispatchId[]
  /** Dispatches that are starting or running. */
  unfinished(): readonly DispatchId[]
}
