import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import type { SandboxLevel } from '../../../shared/level.ts'
import { doorPath, type SandboxRequest } from '../../base/sandbox.ts'
import { agentHome, agentUid } from './etc.ts'
import { isOldBubblewrap, newBubblewrap } from '../host/bubblewrap.ts'
import type { HostFacts, ToolName } from '../host/host.ts'
import { planLimits, processesBeside, type LimitsPlan } from '../limits/limits.ts'
import { reasonsOf, together } from './reasons.ts'
import { affinityRule, rules, type Rule } from '../seccomp/rules.ts'
import type { Architecture } from '../seccomp/syscalls.ts'
import { isInside, planView, type ViewStep, type WritablePlace } from './view.ts'

/** What the holder mounts for one root, before anything of the agent runs. */
export type HeldRoot = {
  readonly slot: number
  readonly lower: string
  readonly upper: string
  readonly work: string
  readonly target: string
  readonly access: 'ro' | 'rw'
  /** Files brought into the writable layer beforehand. */
  readonly touched: readonly string[]
}

type Shell = Readonly<Record<'sh' | 'unshare' | 'setpriv' | 'mount' | 'setsid', string>>

/**
 * Everything that will be done, as a value: printable, comparable, and shown to the user. The driver adds
 * nothing of its own to it.
 */
export type SandboxPlan = {
  readonly request: SandboxRequest
  readonly level: SandboxLevel
  readonly driver: string
  /** `bubblewrap`: the full sandbox. `holder`: level 0, only the workspace and the lifetime are ours. */
  readonly confinement: 'bubblewrap' | 'holder'
  readonly workspaceBy: 'kernel' | 'fuse-overlayfs'
  readonly roots: readonly HeldRoot[]
  readonly namespaces: readonly string[]
  readonly identity: { readonly uid: number; readonly gid: number }
  readonly view: readonly ViewStep[]
  readonly seccomp: { readonly architecture: Architecture; readonly rules: readonly Rule[] } | null
  /**
   * The nodes in /dev are the host's own. Run by root, the agent owns them and could change their modes for
   * everyone: a read-only mount keeps that, while the devices themselves go on working. (escape: chmod-device)
   */
  readonly sealsDevices: boolean
  /**
   * Writes that a read-only workspace denies are seen, by the calls of this architecture. Not where it starts
   * writable: each call that writes would cost a trip to who watches. Null: they are not.
   */
  readonly watches: Architecture | null
  readonly environment: Readonly<Record<string, string>>
  /** What can be written while the rest of its root cannot, once it was looked at. */
  readonly places: readonly WritablePlace[]
  /** Level 0: the user's own environment is underneath. */
  readonly inheritsEnvironment: boolean
  readonly files: 'ro' | 'rw'
  readonly limits: LimitsPlan
  readonly tools: HostFacts['tools']
  readonly shell: Shell
}

function cannot(code: string, message: string, hint: string): OrangeryError {
  return new OrangeryError(code, message, { kind: 'preflight', hint })
}

function requireTool(host: HostFacts, name: ToolName, fix: string): string {
  const path = host.tools[name]
  if (path === null) throw cannot('sandbox.tool_missing', `${name}: not installed on this host`, fix)
  return path
}

const shellFixes = {
  sh: 'sudo apt install dash',
  unshare: 'sudo apt install util-linux',
  setpriv: 'sudo apt install util-linux',
  mount: 'sudo apt install mount',
  setsid: 'sudo apt install util-linux',
} as const satisfies Partial<Record<ToolName, string>>
const shellTools = Object.keys(shellFixes) as (keyof typeof shellFixes)[]

export function requireShell(host: HostFacts): Shell {
  const paths = shellTools.map((name) => [name, requireTool(host, name, shellFixes[name])])
  return Object.fromEntries(paths) as Shell
}

/** What the agent leaves is kept by git: without it there would be nothing to review. */
const requireGit = (host: HostFacts) => requireTool(host, 'git', 'sudo apt install git')

function requireBubblewrap(host: HostFacts): string {
  requireTool(host, 'bwrap', 'sudo apt install bubblewrap')
  if (host.bubblewrap === null) {
    throw cannot(
      'sandbox.bubblewrap_broken',
      'bubblewrap: does not tell its version',
      'sudo apt install --reinstall bubblewrap',
    )
  }
  if (host.bubblewrap.isSetuid) {
    throw cannot(
      'sandbox.bubblewrap_setuid',
      'bubblewrap: is installed set-uid root, which cannot refuse nested user namespaces',
      `sudo chmod u-s ${host.tools.bwrap ?? 'bwrap'}`,
    )
  }
  if (isOldBubblewrap(host.bubblewrap.version)) {
    throw cannot(
      'sandbox.bubblewrap_old',
      `bubblewrap: ${host.bubblewrap.version} is older than 0.8`,
      newBubblewrap,
    )
  }
  const { starts } = host.bubblewrap
  // Without user namespaces it cannot, and what is told of those is the cause.
  if (!starts.ok && host.userNamespaces.ok) {
    throw cannot('sandbox.bubblewrap_broken', `bubblewrap: ${starts.why}`, starts.fix)
  }
  return `bubblewrap ${host.bubblewrap.version}`
}

function planRoots({ workspace, writableFiles, level }: SandboxRequest): readonly HeldRoot[] {
  return workspace.roots.flatMap((root, slot): readonly HeldRoot[] => {
    if (root.mount.kind === 'bind' || root.access === 'hidden') return []
    const { lower, upper, work } = root.mount
    // The kernel accepts an upper layer inside its own lower one; the result is undefined.
    if (isInside(upper, lower)) {
      throw cannot(
        'sandbox.upper_inside_root',
        `${root.path}: contains the data folder`,
        'Name a narrower root, or move the data folder (ORANGERY_DATA_DIR).',
      )
    }
    // At level 0 the file would be as read-only as its root.
    const isTouched = root.access === 'rw' && level > 0
    const touched = isTouched ? writableFiles.filter((path) => isInside(path, root.target)) : []
    return [{ slot, lower, upper, work, target: root.target, access: root.access, touched }]
  })
}

/** What only a view of one's own can give, asked for where the agent sees everything. */
function refuseAtLevelZero({ hide, workspace, files }: SandboxRequest, host: HostFacts): void {
  const hidden = workspace.roots.find((root) => root.access === 'hidden')
  if (hide.length > 0 || hidden !== undefined) {
    throw cannot(
      'sandbox.level_hides_nothing',
      'hide: level 0 hides nothing',
      'Choose level 1, or leave it out.',
    )
  }
  // The overlays stand, but the integration tree lies beside them, and no agent writes that.
  if (workspace.strategy === 'worktree') {
    throw cannot(
      'sandbox.level_holds_no_worktree',
      'worktree: level 0 cannot keep the agent from writing the integration tree, which it sees as you do',
      'Choose level 1, or `--changeset overlay` on a folder of yours, whose changes wait for review all the same.',
    )
  }
  // Nothing is mounted over a root there but an overlay: the agent would write the real files, past any review.
  const copied = workspace.roots.find(({ mount, path }) => mount.kind === 'bind' && mount.source !== path)
  if (copied !== undefined) {
    throw cannot(
      'sandbox.level_shows_no_copy',
      `${copied.target}: level 0 cannot show the agent a copy in its place: it sees the host’s own files there, and would write them`,
      host.overlay.ok || host.fuseOverlay.ok
        ? 'Choose `--changeset overlay`, whose changes wait for review all the same, or `--level 1`.'
        : host.overlay.fix,
    )
  }
  const direct = workspace.roots.find((root) => root.mount.kind === 'bind' && root.role === 'project')
  if (direct !== undefined && (files === 'ro' || direct.access === 'ro')) {
    throw cannot(
      'sandbox.level_cannot_narrow',
      `${direct.target}: level 0 cannot keep the real files read-only`,
      'Choose `--changeset overlay`, or `--level 1`.',
    )
  }
}

const systemPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** What guards calls goes first, what asks goes last and covers nothing. */
function searchPath({ door }: SandboxRequest, path: string): string {
  if (door === undefined) return path
  return [`${doorPath}/commands`, path, `${doorPath}/bin`].join(':')
}

export function planEnvironment(request: SandboxRequest): Readonly<Record<string, string>> {
  if (request.level === 0) return request.env
  const grantedBins = request.grants.flatMap((path) => (path.endsWith('/bin') ? [path] : [`${path}/bin`]))
  return {
    LANG: 'C.UTF-8',
    TERM: request.terminal ? 'xterm-256color' : 'dumb',
    ...request.env,
    PATH: searchPath(request, request.env['PATH'] ?? [...grantedBins, systemPath].join(':')),
    HOME: agentHome,
    USER: 'agent',
    LOGNAME: 'agent',
    SHELL: '/bin/sh',
    TMPDIR: '/tmp',
  }
}

function watchesWrites({ files, workspace }: SandboxRequest, { tools }: HostFacts): boolean {
  const isTaken = workspace.roots.some(({ access }) => access === 'rw')
  return files === 'ro' && isTaken && tools.perl !== null && tools.nsenter !== null
}

/**
 * Pure: the same request on the same host gives the same plan. Throws where the host cannot carry it out, with every
 * reason there is.
 */
export function planSandbox(request: SandboxRequest, host: HostFacts): SandboxPlan {
  try {
    return planWhole(request, host)
  } catch (error) {
    if (!(error instanceof OrangeryError) || host.platform !== 'linux' || request.level > 1) throw error
    throw together([error, ...reasonsOf(requirements(request, host))])
  }
}

type Requirement = () => unknown

const requirements = (request: SandboxRequest, host: HostFacts): readonly Requirement[] => [
  ...hostRequirements(request.level, host),
  () => requireWorkspace(request, host),
  () => requireLimits(request, host),
  ...(request.level === 0 ? [() => refuseAtLevelZero(request, host)] : [() => refuseHostNetwork(request)]),
]

const requireFind = (host: HostFacts) => requireTool(host, 'find', 'sudo apt install findutils')

/** A plain shell cannot close those above 9, which would be doors into the host. */
function requireCloser(host: HostFacts): void {
  if (host.inheritsDescriptors) requireTool(host, 'bash', 'sudo apt install bash')
}

const hostRequirements = (level: SandboxLevel, host: HostFacts): readonly Requirement[] => [
  () => requireNamespaces(host),
  () => requireCloser(host),
  () => requireFind(host),
  ...shellTools.map((name) => () => requireTool(host, name, shellFixes[name])),
  () => requireGit(host),
  ...(level === 0
    ? []
    : [
        () => requireBubblewrap(host),
        () => requireTool(host, 'nsenter', 'sudo apt install util-linux'),
        () => requireSecretSearch(host),
        () => requireFilter(host),
      ]),
]

const noDispatch = '00000000000000-0000' as DispatchId

/** What stands in the way of any sandbox here, whatever shall run in it; null: nothing. */
export function refusalOf(
  { level, limits }: Pick<SandboxRequest, 'level' | 'limits'>,
  host: HostFacts,
): OrangeryError | null {
  if (host.platform !== 'linux' || level > 1) return null
  const reasons = reasonsOf([...hostRequirements(level, host), () => planLimits(limits, host, noDispatch)])
  return reasons.length === 0 ? null : together(reasons)
}

function requireNamespaces({ userNamespaces }: HostFacts): void {
  if (userNamespaces.ok) return
  throw cannot('sandbox.no_user_namespaces', `user namespaces: ${userNamespaces.why}`, userNamespaces.fix)
}

function requireWorkspace(request: SandboxRequest, host: HostFacts) {
  const roots = planRoots(request)
  const workspaceBy = request.workspace.driver === 'fuse-overlayfs' ? 'fuse-overlayfs' : 'kernel'
  if (roots.length > 0 && workspaceBy === 'kernel' && !host.overlay.ok) {
    throw cannot('sandbox.no_overlay', `workspace: ${host.overlay.why}`, host.overlay.fix)
  }
  if (workspaceBy === 'fuse-overlayfs') requireTool(host, 'fuse-overlayfs', 'sudo apt install fuse-overlayfs')
  // Without it what is left of a layer cannot be read, and nothing could be reviewed.
  if (roots.length > 0) requireTool(host, 'getfattr', 'sudo apt install attr')
  return { roots, workspaceBy } as const
}

function requireLimits(request: SandboxRequest, host: HostFacts): LimitsPlan {
  const limits = planLimits(request.limits, host, request.id, processesBeside(request))
  if (limits.diskMb !== null && request.workspace.driver === 'direct') {
    throw cannot(
      'sandbox.limit_not_enforceable',
      'limit disk_mb: this host cannot enforce it where the agent writes the real files',
      'Choose an overlay, a worktree or a clone, or leave the limit out.',
    )
  }
  return limits
}

function refuseHostNetwork({ network }: SandboxRequest): void {
  if (network !== 'host') return
  throw cannot('sandbox.host_network', "network: level 1 never shares the host's network", 'Choose level 0.')
}

function requireSecretSearch(host: HostFacts): void {
  requireFind(host)
  if (host.secretSearch.ok) return
  throw cannot('sandbox.secrets_unknown', `secrets: ${host.secretSearch.why}`, host.secretSearch.fix)
}

function requireFilter({ architecture }: HostFacts) {
  if (architecture !== null) return architecture
  throw cannot('sandbox.architecture', 'seccomp: no filter for this processor', 'Choose a container.')
}

/** What level 1 needs beyond that. */
function requireConfinement(request: SandboxRequest, host: HostFacts) {
  refuseHostNetwork(request)
  const driver = requireBubblewrap(host)
  requireTool(host, 'nsenter', 'sudo apt install util-linux')
  requireSecretSearch(host)
  return { driver, architecture: requireFilter(host) }
}

function planWhole(request: SandboxRequest, host: HostFacts): SandboxPlan {
  if (host.platform !== 'linux') {
    throw cannot(
      'sandbox.platform',
      `level ${request.level}: this driver is for Linux`,
      'Choose a container.',
    )
  }
  if (request.level > 1) {
    throw cannot(
      'sandbox.level',
      `level ${request.level}: not part of this release of Orangery`,
      'Choose level 1.',
    )
  }
  requireNamespaces(host)
  const shell = requireShell(host)
  requireCloser(host)
  requireFind(host)
  requireGit(host)
  const { roots, workspaceBy } = requireWorkspace(request, host)
  const limits = requireLimits(request, host)
  const common = {
    request,
    level: request.level,
    workspaceBy,
    roots,
    environment: planEnvironment(request),
    watches: watchesWrites(request, host) ? host.architecture : null,
    places: [],
    files: request.files,
    limits,
    tools: host.tools,
    shell,
  } as const
  if (request.level === 0) {
    refuseAtLevelZero(request, host)
    return {
      ...common,
      driver: 'bare-cli',
      confinement: 'holder',
      namespaces: ['user', 'mount', 'pid'],
      identity: { uid: host.uid, gid: host.gid },
      view: [],
      seccomp: null,
      sealsDevices: false,
      inheritsEnvironment: true,
    }
  }
  const { driver, architecture } = requireConfinement(request, host)
  return {
    ...common,
    driver,
    confinement: 'bubblewrap',
    namespaces: ['user', 'mount', 'pid', 'network', 'ipc', 'uts', 'cgroup'],
    identity: { uid: agentUid, gid: agentUid },
    view: planView(request, host),
    seccomp: {
      architecture,
      rules: limits.affinity === null ? rules : [...rules, affinityRule],
    },
    sealsDevices: host.uid === 0,
    inheritsEnvironment: false,
  }
}
