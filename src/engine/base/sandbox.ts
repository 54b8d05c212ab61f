import type { ChildProcess } from 'node:child_process'
import type { DeclaredEqualsActual } from '../../shared/effective.ts'
import type { DispatchId } from '../../shared/ids.ts'
import type { SandboxLevel } from '../../shared/level.ts'
import type { Limits } from '../../shared/spec.ts'
import type { Workspace } from './workspace.ts'

/** A host name the sandbox resolves to a relay address of its own, for programs that ignore proxy variables. */
export type HostAlias = {
  readonly host: string
  readonly address: string
  readonly ports: readonly number[]
  /** Where somebody listens too, once the rest stands: mostly only to say no. */
  readonly laterPorts?: readonly number[]
}

/** Where the relay's proxy listens inside, on the sandbox's own loopback; what proxy variables name. */
export const proxyPort = 17_083

/** What the machine is called inside. */
export const ownName = 'orangery'

/** Where the relay answers questions for names, as the sandbox's `resolv.conf` says. */
export const nameServer = '127.0.0.53'
export const namePort = 53

/** Where the agent finds what it can ask through; see the station `door`. */
export const doorPath = '/run/orangery/door'

/** Everything the sandbox station needs to know to plan one sandbox. */
export type SandboxRequest = {
  readonly id: DispatchId
  readonly level: SandboxLevel
  readonly workspace: Workspace
  readonly command: readonly [string, ...string[]]
  readonly cwd: string
  /** The agent's environment, complete but for what the sandbox itself sets (PATH, HOME, TMPDIR, LANG, TERM…). */
  readonly env: Readonly<Record<string, string>>
  readonly files: 'ro' | 'rw'
  /** Files and folders that can be writable while `files` is `ro` (a plan's TODO.md): each is a mount of its own. */
  readonly writableFiles: readonly string[]
  /** Those of them that are so from the start; without it all. */
  readonly writableNow?: readonly string[]
  /** `none`: only an own `lo`. `broker`: also a relay to the broker's socket. `host`: level 0 only. */
  readonly network: 'none' | 'broker' | 'host'
  readonly limits: Limits
  /** Extra host paths the agent may read. */
  readonly grants: readonly string[]
  /** Host folder that is the agent's home inside; made and thrown away (or kept) by the corridor. */
  readonly home: string
  /** Globs, relative to each root, of files the agent must not see. */
  readonly hide: readonly string[]
  /** Files of ours that the agent sees, read-only. */
  readonly shown?: readonly { readonly source: string; readonly target: string }[]
  /** Our own folders, never visible inside. */
  readonly secretDirs: readonly string[]
  readonly terminal: boolean
  /** A folder of ours, shown read-only at `doorPath`. None at level 0, where nothing is asked for. */
  readonly door?: { readonly folder: string }
}

export type LimitName = 'memory' | 'pids' | 'disk' | 'timeout'

export type SandboxEnd = {
  readonly exitCode: number | null
  readonly signal: NodeJS.Signals | null
  /** Why the sandbox itself was cut off, by nobody of us; null where the agent's own end was its end. */
  readonly lost: string | null
  /** The agent's program was not there or could not be executed: nothing of it ever ran. */
  readonly unstartable: boolean
  /** The limit that ended it or was run into, if any. */
  readonly limits: readonly LimitName[]
  /** Limits that were likely run into: the kernel tells nobody of it. */
  readonly likelyLimits: readonly LimitName[]
  readonly resources: {
    readonly wall_ms: number
    readonly cpu_ms: number
    readonly max_rss_mb: number
    /** The most that was counted against a limit of the disk, where there is one. */
    readonly disk_mb?: number
  }
}

/** How often the kernel itself turned something away in the sandbox's network, so far: nobody else hears of it. */
export type TurnedAway = {
  /** Connections and datagrams to addresses that nothing leads to. */
  readonly addresses: number
  /** Datagrams to ports of the sandbox's own at which nobody listens: questions for names, where nobody answers. */
  readonly datagrams: number
}

/** A program's end of a connection, or of a question for a name, in the sandbox's own network. */
export type Peer = { readonly protocol: 'tcp' | 'udp'; readonly port: number; readonly toPort: number }

/** How the agent's stdio is connected: the caller's own descriptors, or those of a pty's slave side. */
export type SandboxIo = {
  readonly stdin: number | 'ignore'
  readonly stdout: number
  readonly stderr: number
  /** Somebody else writes there what the agent's programs are refused. */
  readonly isAnnotated?: boolean
}

/** Told of a path that was not written; null: of more of them it is not told. */
export type OnDeniedWrite = (path: string | null) => void

export interface RunningSandbox extends AsyncDisposable {
  /** The process whose death ends everything inside. */
  readonly pid: number
  /** E.g. `bubblewrap 0.8.0`. */
  readonly driver: string
  /** What a probe inside the finished sandbox found, before the agent's first instruction. */
  readonly probe: DeclaredEqualsActual
  /** Lets the agent's first instruction go. Until then the sandbox stands and waits. */
  release(): void
  readonly ended: Promise<SandboxEnd>
  /** Sends a signal to the agent itself (not to our helpers). */
  signal(name: NodeJS.Signals): void
  /** Ends everything inside, at once and for sure. */
  kill(): Promise<void>
  /** Whether writes that the read-only workspace denies are seen; who listens is told of each path once. */
  readonly seesDeniedWrites: boolean
  onDeniedWrite(listener: OnDeniedWrite): void
  /**
   * Flips the workspace of the running process tree; resolves when it has taken effect. `writable`: those of the
   * request's files and folders that can be written while the rest cannot; without it all.
   */
  setFiles(
    files: 'ro' | 'rw',
    writable?: readonly string[],
  ): Promise<{ readonly tookMs: number; readonly note: string | null }>
  /**
   * Starts the relay in the sandbox's network namespace, connected to the broker's socket: a proxy at
   * `proxyPort` and a listener for each alias. Called again, it changes the aliases of the running relay.
   * Who gives `onStarted` is handed a new relay's process, which passes its listening sockets over IPC;
   * otherwise it carries every connection to the broker's socket. `isLazy`: only when somebody comes to it.
   * Gives where it could not listen (`host:port`), because somebody inside does.
   */
  startRelay(
    brokerSocket: string,
    hosts: readonly HostAlias[],
    onStarted?: (relay: ChildProcess) => void,
    isLazy?: boolean,
  ): Promise<readonly string[]>
  stopRelay(): Promise<void>
  /** Says a line on the stderr of the program that holds this end of a connection, if it has one to be spoken on. */
  tell(peer: Peer, line: string): Promise<void>
  /** Null where the sandbox has no network of its own; readable until it is disposed of. */
  turnedAway(): TurnedAway | null
}
