import { constants, readFileSync } from 'node:fs'
import { access, mkdir, readFile, rm, statfs } from 'node:fs/promises'
import { arch, platform, release } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { makeScratch, sparePlaces } from '../../base/ownedScratch.ts'
import { minimalEnv, run, systemFolders } from '../../base/process.ts'
import { detectBubblewrap, type Bubblewrap } from './bubblewrap.ts'
import { detectCgroups, type CgroupFacts } from '../limits/cgroups.ts'
import { detectEtcLayer, type EtcLayer, type SecretPath } from '../plan/etc.ts'
import type { Ability } from './ability.ts'
import { ownProcessors } from './processors.ts'
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
  /** Docker, Podman or another container around us; null on a plain host. */
  readonly insideContainer: string | null
  readonly cgroups: CgroupFacts
  /** The processors we may run on. */
  readonly processors: readonly number[]
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

async function readText(path: string): Promise<string | null> {
  return readFile(path, 'utf8').catch(() => null)
}

async function detectContainer(): Promise<string | null> {
  const marks = [
    ['/.dockerenv', 'Docker'],
    ['/run/.containerenv', 'Podman'],
  ] as const
  for (const [path, name] of marks) {
    if (
      await access(path).then(
        () => true,
        () => false,
      )
    )
      return name
  }
  const lines = (await readText('/proc/1/cgroup')) ?? ''
  return /docker|containerd|kubepods|lxc/.exec(lines)?.[0] ?? null
}

const namespaceKinds = ['user', 'mnt', 'net', 'pid', 'ipc', 'uts'] as const

/** What the host shows when it refuses user namespaces, or others within them. */
export type RefusalSigns = {
  /** The kinds of which this user may have none: user.max_KIND_namespaces is 0. */
  readonly none: readonly (typeof namespaceKinds)[number][]
  /** kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns */
  readonly clone: string | null
  readonly apparmor: string | null
  readonly inside: string | null
  /** What is mounted, as `/proc/self/mountinfo` has it. */
  readonly mounts: string | null
  readonly said: string
}

/** The fifth word is the mount point; whose root is none was put there by chroot. */
const isChroot = (mounts: string): boolean => !mounts.split('\n').some((line) => line.split(' ')[4] === '/')

/** Why a user namespace cannot be made here, from the surest sign to the vaguest, and what helps. */
export function explainRefusal({ none, clone, apparmor, inside, mounts, said }: RefusalSigns): Ability {
  const [kind] = none
  if (kind !== undefined) {
    const settings = none.map((each) => `user.max_${each}_namespaces`)
    return {
      ok: false,
      why: `${kind} namespaces are switched off (${settings.join(', ')} is 0)`,
      fix: `sudo sysctl -w ${settings.map((setting) => `${setting}=15000`).join(' ')}`,
    }
  }
  if (clone?.trim() === '0') {
    return {
      ok: false,
      why: 'user namespaces are switched off for ordinary users (kernel.unprivileged_userns_clone is 0)',
      fix: 'sudo sysctl -w kernel.unprivileged_userns_clone=1',
    }
  }
  if (apparmor?.trim() === '1') {
    return {
      ok: false,
      why: 'AppArmor keeps ordinary programs from making user namespaces',
      fix: 'sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0',
    }
  }
  // The kernel's word for "no more of them": a limit of this user or of a namespace around us, and no full disk.
  if (said.includes('No space left')) {
    return {
      ok: false,
      why: 'the limit of user namespaces is reached (user.max_user_namespaces, here or in what runs around us)',
      fix: 'sudo sysctl -w user.max_user_namespaces=15000',
    }
  }
  if (mounts !== null && isChroot(mounts)) {
    return {
      ok: false,
      why: 'we run in a chroot, where the kernel makes no user namespaces',
      fix: 'Enter the folder with systemd-nspawn or pivot_root instead of chroot.',
    }
  }
  if (inside !== null) {
    return {
      ok: false,
      why: `${inside} around us refuses user namespaces (${said})`,
      fix: 'docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined …',
    }
  }
  return {
    ok: false,
    why: `the kernel refuses user namespaces (${said})`,
    fix: 'Use a kernel with CONFIG_USER_NS, 5.11 or newer.',
  }
}

function firstLine(text: Buffer): string {
  return text.toString().trim().split('\n')[0] ?? ''
}

/** The line that says what failed: programs warn of other things before. */
function failureLine(text: Buffer): string {
  const lines = text.toString().trim().split('\n')
  const isFailure = (line: string) =>
    /cannot|failed|denied|not permitted|no such|unable|error/i.test(line) && !/ignored/i.test(line)
  return lines.find(isFailure) ?? lines.at(-1) ?? ''
}

async function detectUserNamespaces(tools: HostFacts['tools'], inside: string | null): Promise<Ability> {
  if (tools.unshare === null) {
    return { ok: false, why: 'unshare is not installed', fix: 'sudo apt install util-linux' }
  }
  // What the holder will do, in small: the mount of proc is what containers commonly refuse.
  const tried = await run(tools.unshare, ['-Urmnpiuf', '--kill-child=KILL', '--mount-proc', 'true'], {
    timeoutMs: 5000,
  })
  if (tried.code === 0) return { ok: true }
  const [clone, apparmor, mounts, ...most] = await Promise.all(
    [
      '/proc/sys/kernel/unprivileged_userns_clone',
      '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
      '/proc/self/mountinfo',
      ...namespaceKinds.map((kind) => `/proc/sys/user/max_${kind}_namespaces`),
    ].map(readText),
  )
  return explainRefusal({
    none: namespaceKinds.filter((_, at) => most[at]?.trim() === '0'),
    clone: clone ?? null,
    apparmor: apparmor ?? null,
    inside,
    mounts: mounts ?? null,
    said: firstLine(tried.stderr),
  })
}

const filesystems: Readonly<Record<number, string>> = {
  0xef53: 'ext4',
  0x9123683e: 'btrfs',
  0x58465342: 'xfs',
  0x01021994: 'tmpfs',
  0x794c7630: 'overlay',
  0x6969: 'nfs',
  0xf15f: 'ecryptfs',
  0x65735546: 'fuse',
  0x2fc12fc1: 'zfs',
  0xf2f52010: 'f2fs',
}

// A kernel that mounts an overlay may still refuse to write through it (nfs, ecryptfs): so write once.
const layers = 'lowerdir=lower,upperdir=upper,workdir=work'
const useMerged = ': >merged/written && mkdir merged/folder && rm merged/written'
const tryKernelOverlay = `cd "$1" && "$2" -i -t overlay -o ${layers},userxattr,index=off,xino=off overlay merged && ${useMerged}`
const tryFuseOverlay = `cd "$1" && "$2" -o ${layers} merged && ${useMerged}`

async function detectDataFolder(dataDir: string): Promise<Ability> {
  try {
    await using _made = await makeScratch(sparePlaces({ dataDir }))
    return { ok: true }
  } catch (error) {
    const why = `${dataDir} cannot be written (${(error as Error).message})`
    return { ok: false, why, fix: 'export ORANGERY_DATA_DIR=/path/you/may/write' }
  }
}

/** Mounts an overlay with its writable layer in the data folder, as the holder will, and throws it away. */
async function tryOverlay(tools: HostFacts['tools'], dataDir: string, script: string, program: string) {
  await using scratch = await makeScratch(sparePlaces({ dataDir }))
  const { folder } = scratch
  try {
    for (const name of ['lower', 'upper', 'work', 'merged']) await mkdir(join(folder, name))
    const inside = [tools.sh ?? 'sh', '-c', script, 'sh', folder, program]
    return await run(tools.unshare ?? 'unshare', ['-Urmpf', '--kill-child=KILL', ...inside], {
      timeoutMs: 5000,
    })
  } finally {
    await rm(join(folder, 'work', 'work'), { recursive: true, force: true }).catch(() => {})
  }
}

/** Why the kernel mounts no overlay over the user's folders here, and what helps. */
export function explainNoOverlay(signs: {
  readonly kernel: string
  readonly filesystem: string
  readonly said: string
}): Ability {
  const { kernel, filesystem, said } = signs
  const [major = 0, minor = 0] = kernel.split('.').map(Number)
  if (major < 5 || (major === 5 && minor < 11)) {
    return {
      ok: false,
      why: `Linux ${kernel} is older than 5.11, the first that lets ordinary users mount an overlay`,
      fix: 'sudo apt install fuse-overlayfs',
    }
  }
  return {
    ok: false,
    why: `the kernel cannot mount an overlay with its writable layer on ${filesystem} (${said})`,
    fix: 'export ORANGERY_DATA_DIR=/path/on/ext4/xfs/or/btrfs',
  }
}

async function detectOverlay(
  tools: HostFacts['tools'],
  dataDir: string,
  filesystem: string,
): Promise<Ability> {
  if (tools.mount === null) return { ok: false, why: 'mount is not installed', fix: 'sudo apt install mount' }
  const tried = await tryOverlay(tools, dataDir, tryKernelOverlay, tools.mount)
  if (tried.code === 0) return { ok: true }
  return explainNoOverlay({ kernel: release(), filesystem, said: firstLine(tried.stderr) })
}

async function detectFuseOverlay(tools: HostFacts['tools'], dataDir: string): Promise<Ability> {
  const program = tools['fuse-overlayfs']
  const fix = 'sudo apt install fuse-overlayfs'
  if (program === null) return { ok: false, why: 'fuse-overlayfs is not installed', fix }
  const tried = await tryOverlay(tools, dataDir, tryFuseOverlay, program)
  if (tried.code === 0) return { ok: true }
  return explainNoFuse(tried.stderr)
}

/** Why fuse-overlayfs mounts nothing here, and what helps. */
export function explainNoFuse(stderr: Buffer): Ability {
  const said = failureLine(stderr)
  const fix = /\/dev\/fuse.*(denied|not permitted)/i.test(said)
    ? 'sudo chmod 666 /dev/fuse'
    : /\/dev\/fuse/.test(said)
      ? 'sudo modprobe fuse'
      : 'export ORANGERY_DATA_DIR=/path/on/ext4/xfs/or/btrfs'
  return { ok: false, why: `fuse-overlayfs does not work here (${said})`, fix }
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
  const [bubblewrap, insideContainer] = await Promise.all([detectBubblewrap(tools.bwrap), detectContainer()])
  const dataFolder = await detectDataFolder(dataDir)
  const type = (await statfs(dataDir).catch(() => null))?.type
  const filesystem = type === undefined ? 'unknown' : (filesystems[type] ?? `0x${type.toString(16)}`)
  const userNamespaces = await detectUserNamespaces(tools, insideContainer)
  const ground = userNamespaces.ok ? dataFolder : userNamespaces
  const [overlay, cgroups, system, etcFiles, secrets] = await Promise.all([
    ground.ok ? detectOverlay(tools, dataDir, filesystem) : ground,
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
      ? await detectFuseOverlay(tools, dataDir)
      : ground
  // Neither has a writable layer: they can be where the workspace's cannot.
  const [etcLayer, systemLayers] = ground.ok
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
    processors: ownProcessors(),
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
  const etcLayer = isSame ? facts.etcLayer : await detectEtcLayer(dataDir, secretPaths, facts.tools)
  return { ...facts, ...secrets, secretPaths, etcFiles, etcLayer, systemLayers }
}
