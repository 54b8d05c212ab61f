import type { BoundaryLevel } from '../../shared/boundary.ts'
import type { EffectiveConfig } from '../../shared/config.ts'
import type { WritableScopes } from '../base/contract.ts'
import type { EscalationState } from '../base/escalation.ts'
import type { Bounds } from './ancestors.ts'

export type FixedFiles = WritableScopes & { readonly workspace: string }

export type EscalationContext = {
  readonly at: Date
  readonly config: EffectiveConfig
  /** Real paths of the dispatch's roots: approvals name real folders. */
  readonly roots: readonly string[]
  /** The boundary that the config gives it by itself; null: who started it named one. */
  readonly given?: BoundaryLevel | null
  /** Of its ancestors. */
  readonly bounds: Bounds
  /** Whether its contract names outputs that are not open: then `full` by itself reaches no more than those. */
  readonly namesOutputs?: boolean
  /** Whether the broker lets every public host through that nothing denies, as the records are. */
  readonly isOpen?: (state: EscalationState) => boolean
  /** Hosts that its contract denies, whoever approves. */
  readonly denies?: readonly string[]
  /** What it writes at which level, where that cannot change while it runs, and what its workspace is. */
  readonly fixed?: FixedFiles | null
  /** The config could not be read, so that nobody knows what it allows: a person decides once it can. */
  readonly isUnreadable?: boolean
}
