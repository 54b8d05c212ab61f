import type { BoundaryLevel, Phase } from '../../shared/boundary.ts'
import type { TrustState } from '../../shared/config.ts'
import type { SandboxLevel } from '../../shared/level.ts'
import type { Limits, OutputMode, Platform, RootModes, WorkspaceStrategy } from '../../shared/spec.ts'
import type { WorkspaceDriver } from './workspace.ts'

export type ContractOutputs = {
  readonly mode: OutputMode
  /** Hosts the contract names; they hold from boundary `network` on. */
  readonly allow: readonly string[]
  /** Wins over everything else, at every boundary. */
  readonly deny: readonly string[]
  /** `host[:port]` → `address:port` the user chose; the one way to reach loopback or the LAN. */
  readonly pins: Readonly<Record<string, string>>
  /** They are its parent's: they say where a host leads that it may reach, and open none. */
  readonly led?: boolean
  /** They hold at every boundary: those of networks too, which no list of hosts names. */
  readonly pinsAlways?: boolean
  /** Hosts that hold at every boundary: what the agent's card needs to think at all, and what a read-only phase names. */
  readonly always: readonly string[]
  /** Every public host is open at every boundary: where an open network goes with files that stay as they are. */
  readonly openAlways?: boolean
  /** Those of `always` that the card needs; left out: all of them. No maximum of the config closes these. */
  readonly ofCard?: readonly string[]
  /** Plain HTTP is held to reading. */
  readonly readOnly: boolean
  /** False where nobody said anything about outputs: then `full` may open them. */
  readonly declared: boolean
  /** Nobody said anything: declared as nothing so that a child gets no more than its parent, or a word about files opens nothing. */
  readonly cut?: boolean
}

/** A project's config file as it was when a dispatch began. */
export type HeldProject = {
  /** The folder that it lay in. */
  readonly project: string
  readonly file: string
  readonly text: string
  readonly sha256: string
  readonly trust: TrustState
}

/** What of a workspace can be written, level by level. */
export type WritableScopes = {
  /** Absolute paths that stay writable while the boundary is `readonly`: a plan's TODO.md. */
  readonly writableFiles: readonly string[]
  /** At which wider levels not the whole workspace can be written, and what of it can. */
  readonly writableAt?: Readonly<Partial<Record<BoundaryLevel, readonly string[]>>>
}

/** The contract one dispatch runs under: the spec with every default, policy and parent's limit worked in. */
export type Contract = WritableScopes & {
  readonly level: SandboxLevel
  readonly strategy: WorkspaceStrategy
  /** Null: this machine. */
  readonly platform: Platform | null
  readonly outputs: ContractOutputs
  readonly software: string | null
  readonly boundary: BoundaryLevel
  /** Nobody asked for that boundary: it is what the config gives the phase, and goes when the config gives less. */
  readonly byPhase?: boolean
  readonly phase: Phase | null
  readonly roots: readonly string[]
  /** What it may do with each root, where that is not `rw`; none in contracts of earlier releases. */
  readonly rootModes?: RootModes
  readonly workingDir: string | null
  /** Globs, relative to each root, of files the agent must not see. */
  readonly hide: readonly string[]
  readonly limits: Limits
  readonly onLimit: 'record' | 'stop'
  /** Null: unconstrained. What a boundary level adds to these lists holds only at that level. */
  readonly toolsAllowed: readonly string[] | null
  readonly toolsDenied: readonly string[]
  readonly maxTurns: number | null
  readonly maxCommands: number | null
  /** What an agent on the real files cannot lift by changing them: it goes on holding until its dispatch ends. */
  readonly projects?: readonly HeldProject[] | undefined
  /** Roots of its ancestors beside its own: what the config there comes to say narrows it as well. */
  readonly around?: readonly string[]
  /** What carries its writes, once it runs; none in contracts of earlier releases. */
  readonly driver?: WorkspaceDriver
}

/** The boundary that keeps back hosts which the contract names; null: every public one. */
export type Gate = { readonly level: BoundaryLevel; readonly hosts: readonly string[] | null }

/** What the broker lets through right now. */
export type NetworkPolicy = {
  readonly mode: OutputMode
  readonly allow: readonly string[]
  readonly deny: readonly string[]
  readonly pins: Readonly<Record<string, string>>
  readonly readOnly: boolean
  /** Taken back by a person: denied, whatever allows them, but for what is among `returned`. */
  readonly taken: readonly string[]
  readonly returned: readonly string[]
  readonly gate?: Gate
}
