import { constants, readFileSync } from 'node:fs'
import { access } from 'node:fs/promises'
import { arch, platform, release } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { minimalEnv, systemFolders } from '../../base/process.ts'
import { detectContainer } from './container.ts'
import { hasInherited } from './inherited.ts'
import { detectBubblewrap, type Bubblewrap } from './bubblewrap.ts'
import { detectCgroups, type CgroupFacts } from '../limits/cgroups.ts'
import { ownMostProcesses } from '../limits/rlimit.ts'
import { detectEtcLayer, type EtcLayer, type SecretPath } from '../plan/etc.ts'
import type { Ability } from './ability.ts'
import {
  breaksOverlays,
  detectDataFolder,
  detectFuseOverlay,
  detectOverlay,
  filesystemOf,
} from './overlays.ts'
import { ownProcessors } from './processors.ts'
import { detectUserNamespaces } from './refusal.ts'
import { searchedPlaces } from '../plan/searchedPlaces.ts'
import type { Architecture } from '../seccomp/syscalls.ts'
import { detectSystemLayers, presentLayers, type SystemLayer } from './systemLayers.ts'
import {
  detectEtcFiles,
  detectKernelLists,
  detectSecrets,
  detectSystem,
  isEtcChanged,
  privateAmongSystem,
  privateFolders,
  type Secrets,
  type SystemEntry,
} from '../plan/systemView.ts'

const toolNames = [
  'sh',
  'bash',
  'bwrap',
  'unshare',
  'setpriv',
  'nsenter',
  'setsid',
  'prlimit',
  'taskset',
  'mount',
  'find',
  'git',
  'getfattr',
  'mkfifo',
  'fuse-overlayfs',
  'systemd-run',
  'perl',
] as const
export type ToolName = (typeof toolNames)[number]

export type { Ability } from './ability.ts'
export type { SystemEntry } from '../plan/systemView.ts'

export type HostFacts = {
  readonly platform: string
  readonly kernel: string
  readonly architecture: Architecture | null
  readonly uid: number
  readonly gid: number
  readonly tools: Readonly<Record<ToolName, string | null>>
  readonly bubblewrap: Bubblewrap | null
  readonly userNamespaces: Ability
  /** Whether anything can be written in the data folder. */
  readonly dataFolder: Ability
  /** Kernel overlay with its writable layer in the data folder. */
  readonly overlay: Ability
  /** fuse-overlayfs in its place; looked at only where there is no kernel overlay. */
  readonly fuseOverlay: Ability
  readonly filesystem: string
  /** The container around us; null on a plain host. */
  readonly insideContainer: string | null
  readonly cgroups: CgroupFacts
  /** We were started with descriptors that whatever we start would have too. */
  readonly inheritsDescriptors: boolean
  /** The processors we may run on. */
  readonly processors: readonly number[]
  /** How many processes RLIMIT_NPROC may be set to at most; null: any number. */
  readonly mostProcesses: number | null
  readonly system: readonly SystemEntry[]
  /** Files of /etc that we replace, where they are plain files. */
  readonly etcFiles: readonly string[]
  /** Files of /proc that tell of more than processes, and to whom they should not. */
  readonly kernelLists: readonly string[]
  /** What of the system other users of this host may not read: neither may the agent, though run by root. */
  readonly secretPaths: readonly SecretPath[]
  /** Where new ones would be, of /etc. */
  readonly etcFolders: Secrets['etcFolders']
  readonly searched: Secrets['searched']
  readonly searchedAtMs: Secrets['searchedAtMs']
  /** Whether they could be looked for at all. */
  readonly secretSearch: Ability
  /** Covers those of /etc all at once; null where such a layer cannot be mounted. */
  readonly etcLayer: EtcLayer | null
  /** Folders of the system whose sockets and pipes an overlay cuts off. */
  readonly systemLayers: readonly SystemLayer[]
}

async function findTool(name: string): Promise<string | null> {
  const folders = new Set([...systemFolders, ...(minimalEnv['PATH'] ?? '').split(':')])
  for (const folder of folders) {
    if (!folder.startsWith('/')) continue
    const path = join(folder, name)
    try {
      await access(path, constants.X_OK)
      return path
    } catch {}
  }
  return null
}

async function withPrivate({ secretPaths }: Secrets, system: readonly SystemEntry[], dataDir: string) {
  const own = await privateAmongSystem(system, privateFolders(dataDir), secretPaths)
  const others = secretPaths.filter(({ path }) => !own.some((folder) => path.startsWith(`${folder.path}/`)))
  return [...others, ...own]
}

/** Looks at the host once. It tries things rather than reading signs, so an answer holds for the real run. */
export async function detectHost(dataDir: string): Promise<HostFacts> {
  const found = await Promise.all(toolNames.map(async (name) => [name, await findTool(name)] as const))
  const tools = Object.fromEntries(found) as HostFacts['tools']
  const insideContainer = await detectContainer()
  const bubblewrap = await detectBubblewrap(tools.bwrap, insideContainer)
  const dataFolder = await detectDataFolder(dataDir)
  const filesystem = await filesystemOf(dataDir)
  const userNamespaces = await detectUserNamespaces(tools.unshare, insideContainer)
  const place = { tools, dataDir, filesystem, insideContainer }
  const ground = userNamespaces.ok ? dataFolder : userNamespaces
  const [overlay, cgroups, system, etcFiles, secrets] = await Promise.all([
    ground.ok ? detectOverlay(place) : ground,
    detectCgroups(tools['systemd-run']),
    detectSystem(),
    detectEtcFiles(),
    detectSecrets(tools.find),
  ])
  const { secretSearch, etcFolders, searched, searchedAtMs } = secrets
  const secretPaths = await withPrivate(secrets, system, dataDir)
  const fuseOverlay: Ability = overlay.ok
    ? { ok: false, why: 'not needed: the kernel overlay works', fix: '' }
    : ground.ok
      ? await detectFuseOverlay(place)
      : ground
  // Neither has a writable layer: they can be where the workspace's cannot.
  const [etcLayer, systemLayers] =
    ground.ok && !breaksOverlays(filesystem)
      ? await Promise.all([
          detectEtcLayer(dataDir, secretPaths, tools),
          detectSystemLayers(dataDir, system, tools),
        ])
      : [null, []]
  const architecture = arch()
  return {
    platform: platform(),
    kernel: release(),
    architecture: architecture === 'x64' || architecture === 'arm64' ? architecture : null,
    uid: process.getuid?.() ?? 0,
    gid: process.getgid?.() ?? 0,
    tools,
    bubblewrap,
    userNamespaces,
    dataFolder,
    overlay,
    fuseOverlay,
    filesystem,
    insideContainer,
    cgroups,
    inheritsDescriptors: hasInherited,
    processors: ownProcessors(),
    mostProcesses: ownMostProcesses(),
    system,
    etcFiles,
    kernelLists: detectKernelLists(),
    secretPaths,
    etcFolders,
    searched,
    searchedAtMs,
    secretSearch,
    etcLayer,
    systemLayers,
  }
}

/**
 * The same host as it is now. Who waits for a dispatch has looked at it long before: what other users may not read
 * and came to /etc meanwhile, or was mounted where it is looked for, is hidden too.
 */
export async function currentHost(facts: HostFacts, dataDir: string, isChanged = false): Promise<HostFacts> {
  const mounts = readFileSync('/proc/self/mountinfo')
  const systemLayers = presentLayers(facts.systemLayers, mounts.toString())
  const isMounted = !isDeepStrictEqual(searchedPlaces(mounts.toString('latin1')), facts.searched)
  if (!isChanged && !isMounted && !isEtcChanged(facts)) {
    return systemLayers === facts.systemLayers ? facts : { ...facts, systemLayers }
  }
  const [secrets, etcFiles] = await Promise.all([detectSecrets(facts.tools.find), detectEtcFiles()])
  const secretPaths = await withPrivate(secrets, facts.system, dataDir)
  const isSame = !isMounted && isDeepStrictEqual(secretPaths, facts.secretPaths)
  const etcLayer =
    isSame || breaksOverlays(facts.filesystem)
      ? facts.etcLayer
      : await detectEtcLayer(dataDir, secretPaths, facts.tools)
  return { ...facts, ...secrets, secretPaths, etcFiles, etcLayer, systemLayers }
}
