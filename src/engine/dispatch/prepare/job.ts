import type { AgentCard } from '../../../shared/card.ts'
import type { EffectiveConfig } from '../../../shared/config.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import type { Contract } from '../../base/contract.ts'
import type { WorkspaceDriver } from '../../base/workspace.ts'
import type { CredentialGrant, Proxies, Told } from '../../egress/index.ts'
import type { Project } from '../../workspace/index.ts'
import type { Size } from '../supervise/terminal.ts'

/**
 * Everything a supervisor needs to lead one dispatch from its workspace to its end. It travels over a pipe
 * and is never written down: `env`, `credentials` and `proxies` hold secrets.
 */
export type Job = {
  readonly id: DispatchId
  readonly name: string | null
  readonly card: AgentCard
  readonly command: readonly [string, ...string[]]
  /** For agents that are told over a protocol what to do. */
  readonly prompt: string | null
  readonly systemPrompt: string | null
  readonly contract: Contract
  readonly project: Project
  readonly driver: WorkspaceDriver
  /** The sandbox was made before (`agent start`) and is entered, not made. */
  readonly entersInvocation: boolean
  /** The dispatch whose sandbox and changeset this one goes on with, after a review. */
  readonly continues: DispatchId | null
  /** The user trusts the repository a worktree sandbox is made from. */
  readonly trusted: boolean
  /** What the user should know about the sandbox before it is used. */
  readonly notes: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** What presets tell tools inside, so that they go where the user's own go. */
  readonly told: Told
  /** Secrets the broker holds; the agent never sees them. */
  readonly credentials: readonly CredentialGrant[]
  /** Proxies of the user's environment that lead out; a password may be in them. */
  readonly proxies: Proxies | null
  readonly size: Size
  /** As it was when the dispatch was asked for. What holds while it runs is read anew, and followed. */
  readonly config: EffectiveConfig
}
