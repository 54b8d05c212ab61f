import { join } from 'node:path'
import { doorPath, ownName, type SandboxRequest } from '../../base/sandbox.ts'
import type { WorkspaceRoot } from '../../base/workspace.ts'
import { agentHome, ownEtc, type EtcLayer, type GivenFile, type SecretPath } from './etc.ts'
import type { HostFacts } from '../host/host.ts'

/** One step of building what the agent sees. Steps are done in order. */
export type ViewStep =
  | { readonly kind: 'read-only' | 'writable'; readonly source: string; readonly target: string }
  /** A file of our own, read-only, that bubblewrap takes from a descriptor. */
  | { readonly kind: 'given'; readonly name: GivenFile; readonly target: string; readonly why: string }
  | {
      readonly kind: 'private'
      readonly target: string
      readonly mode: string
      readonly bytes: number
    }
  /** /etc under a layer of ours, which the holder mounts. */
  | { readonly kind: 'covered'; readonly target: '/etc'; readonly layer: EtcLayer }
  /** A folder of the system under an overlay without a writable layer, which the holder mounts at `source`. */
  | { readonly kind: 'layered'; readonly source: string; readonly target: string }
  | { readonly kind: 'hidden'; readonly of: 'file' | 'folder'; readonly target: string; readonly why: string }
  | { readonly kind: 'link'; readonly target: string; readonly to: string }
  | { readonly kind: 'devices' | 'processes'; readonly target: string }
  /** Root number `slot` of the workspace, as the holder mounted it. */
  | {
      readonly kind: 'root'
      readonly slot: number
      readonly source: string
      readonly target: string
      readonly access: 'ro' | 'rw'
    }
  | { readonly kind: 'sealed'; readonly target: string }
  /** The agent's own terminal, under a name: its number is one of the host's, which is not in view. */
  | { readonly kind: 'terminal'; readonly target: string }

/** A file or folder that can be written while the rest of its root cannot: a mount of its own. */
export type WritablePlace = {
  readonly target: string
  readonly kind: 'file' | 'folder'
  /** The target of the root it lies in. */
  readonly root: string
  /** Whether it can be written from the start. */
  readonly isNow: boolean
}

const megabyte = 1024 * 1024
// tmpfs is memory of the host: unbounded it would be a way to exhaust it. (escape: fill-tmp, fill-dev-shm)
const privateBytes = { tmp: 2048 * megabyte, run: 64 * megabyte, shm: 512 * megabyte }

export function isInside(path: string, folder: string): boolean {
  return path === folder || folder === '/' || path.startsWith(`${folder}/`)
}

/** Of what is shown for this run anyway nothing can be covered beforehand: then it is done file by file. */
function etcLayerFor(request: SandboxRequest, host: HostFacts): EtcLayer | null {
  const meets = (place: string) => isInside(place, '/etc') || isInside('/etc', place)
  return shownPlaces(request).some(meets) ? null : host.etcLayer
}

export const shownPlaces = ({ grants, workspace }: SandboxRequest) => [
  ...grants,
  ...workspace.roots.flatMap(({ path, target }) => [path, target]),
]

function systemSteps(host: HostFacts, layer: EtcLayer | null): readonly ViewStep[] {
  return host.system.map((entry): ViewStep => {
    if (entry.kind === 'link') return { kind: 'link', target: entry.path, to: entry.target }
    if (entry.path === '/etc' && layer !== null) return { kind: 'covered', target: '/etc', layer }
    const layered = host.systemLayers.find(({ path }) => path === entry.path)
    return layered === undefined
      ? { kind: 'read-only', source: entry.path, target: entry.path }
      : { kind: 'layered', source: layered.place, target: entry.path }
  })
}

export const unsearchedMount = 'mounted, and not looked through for what other users may not read'

/** The sandbox's /etc/hosts on the host: rewritten in place when the relay starts. */
export const hostsPath = (request: SandboxRequest) => join(request.workspace.dir, 'hosts')

function etcSteps(request: SandboxRequest, host: HostFacts, layer: EtcLayer | null): readonly ViewStep[] {
  const hosts: ViewStep = { kind: 'read-only', source: hostsPath(request), target: '/etc/hosts' }
  const why = 'other users of the host may not read it'
  const shown = shownPlaces(request)
  const covered = (path: string) => shown.some((place) => isInside(path, place))
  const left = host.secretPaths.filter(({ path }) => layer === null || !isInside(path, '/etc'))
  const secrets = [...left, ...ownFolders(request, host)].filter(({ path }) => !covered(path))
  const masks = secrets.map(({ path, kind, isMount }): ViewStep =>
    // Something in it is mounted later: then it is empty but for that.
    shown.some((place) => isInside(place, path))
      ? { kind: 'private', target: path, mode: '0755', bytes: privateBytes.run }
      : { kind: 'hidden', of: kind, target: path, why: isMount === true ? unsearchedMount : why },
  )
  if (layer !== null) return [hosts, ...masks]
  // A link (systemd's resolv.conf) cannot be mounted on, and dangles inside, where /run is private.
  const isPlain = (target: string) => host.etcFiles.includes(target)
  const given = ownEtc.map(([name, why]): ViewStep => ({ kind: 'given', name, target: `/etc/${name}`, why }))
  return [...[...given, hosts].filter(({ target }) => isPlain(target)), ...masks]
}

/** Folders of Orangery that a folder of the system would show. Elsewhere they do not exist inside. */
function ownFolders(
  { secretDirs }: SandboxRequest,
  { system, secretPaths }: HostFacts,
): readonly SecretPath[] {
  const isShown = (path: string) =>
    system.some((entry) => entry.kind === 'folder' && isInside(path, entry.path))
  const others = (path: string) => [
    ...secretPaths.map((secret) => secret.path),
    ...secretDirs.filter((dir) => dir !== path),
  ]
  return secretDirs
    .filter((path) => isShown(path) && !others(path).some((place) => isInside(path, place)))
    .map((path) => ({ kind: 'folder', path }))
}

/** A hidden root that something else would show. Elsewhere it does not exist inside. */
function hiddenRootSteps({ workspace, grants }: SandboxRequest, host: HostFacts): readonly ViewStep[] {
  const shown = [...host.system.flatMap((entry) => (entry.kind === 'folder' ? [entry.path] : [])), ...grants]
  const hidden = workspace.roots.filter(({ access }) => access === 'hidden')
  const targets = new Set(hidden.flatMap(({ path, target }) => [path, target]))
  return [...targets]
    .filter((target) => shown.some((folder) => isInside(target, folder)))
    .map((target) => ({ kind: 'hidden', of: 'folder', target, why: hiddenRoot }))
}

export const hiddenRoot = 'a root that is hidden by the spec'

function rootSteps(
  root: WorkspaceRoot,
  slot: number,
  files: 'ro' | 'rw',
  isAliased: boolean,
): readonly ViewStep[] {
  if (root.access === 'hidden') return []
  if (root.mount.kind === 'bind') {
    // Nothing can flip a bind later: what starts read-only is bound so. (escape: readonly-direct-root)
    const kind = root.access === 'ro' || files === 'ro' ? 'read-only' : 'writable'
    return [{ kind, source: root.mount.source, target: root.target }]
  }
  const step: ViewStep = { kind: 'root', slot, source: root.target, target: root.target, access: root.access }
  return isAliased ? [step, { ...step, target: root.path }] : [step]
}

/**
 * A root named through a symlink is also there at its real path, which build files and caches may have noted.
 * Not for worktrees, where that is the user's integration tree.
 */
export function needsAlias(root: WorkspaceRoot, { workspace }: SandboxRequest): boolean {
  if (root.path === root.target || workspace.strategy === 'worktree') return false
  return !workspace.roots.some(({ target }) => isInside(root.path, target) || isInside(target, root.path))
}

/**
 * The whole file system of a level-1 sandbox. It starts empty: what is not listed here does not exist inside,
 * so no denylist has to know where secrets and sockets are.
 */
export function planView(request: SandboxRequest, host: HostFacts): readonly ViewStep[] {
  const roots = request.workspace.roots
  const layer = etcLayerFor(request, host)
  return [
    ...systemSteps(host, layer),
    ...etcSteps(request, host, layer),
    { kind: 'processes', target: '/proc' },
    // Names of the user's keys, which no namespace separates (escape: keyring-names), and what the kernel tells only root:
    // where its memory is, who uses which page of it. (escape: kernel-lists)
    ...host.kernelLists.map((target): ViewStep => ({
      kind: 'hidden',
      of: 'file',
      target,
      why: "the kernel's lists are the user's and root's",
    })),
    // Files of /proc/sys ask who one is, not for a capability: an agent run by root could set
    // kernel.core_pattern and have the host run a program of its choice. (escape: kernel-settings)
    { kind: 'sealed', target: '/proc' },
    { kind: 'devices', target: '/dev' },
    ...(request.terminal ? [{ kind: 'terminal', target: '/dev/console' } as const] : []),
    { kind: 'private', target: '/dev/shm', mode: '1777', bytes: privateBytes.shm },
    { kind: 'private', target: '/tmp', mode: '1777', bytes: privateBytes.tmp },
    { kind: 'private', target: '/run', mode: '0755', bytes: privateBytes.run },
    ...(request.door === undefined
      ? []
      : [{ kind: 'read-only', source: request.door.folder, target: doorPath } as const]),
    { kind: 'private', target: '/var', mode: '0755', bytes: privateBytes.run },
    linkUnlessUsed('/var/tmp', '/tmp', '1777', request),
    linkUnlessUsed('/var/run', '/run', '0755', request),
    { kind: 'writable', source: request.home, target: agentHome },
    ...(request.shown ?? []).map((file): ViewStep => ({ kind: 'read-only', ...file })),
    ...request.grants.map((path): ViewStep => ({ kind: 'read-only', source: path, target: path })),
    ...hiddenRootSteps(request, host),
    ...[...roots.entries()]
      // Outer targets first: a mount made later on an outer path would cover the inner one.
      .sort(([, a], [, b]) => a.target.length - b.target.length)
      .flatMap(([slot, root]) => rootSteps(root, slot, request.files, needsAlias(root, request))),
    ...(request.workspace.strategy === 'none' ? [] : request.writableFiles).flatMap((path) =>
      writableFileSteps(path, roots),
    ),
    { kind: 'sealed', target: '/' },
    // Memory of the host without a bound: only what is mounted in it can be written.
    { kind: 'sealed', target: '/dev' },
  ]
}

/** A root or grant below a link would have no folder to be mounted on: then the place is a private folder instead. */
function linkUnlessUsed(target: string, to: string, mode: string, request: SandboxRequest): ViewStep {
  const places = [...request.workspace.roots.map((root) => root.target), ...request.grants]
  const used = places.some((place) => place.startsWith(`${target}/`))
  return used ? { kind: 'private', target, mode, bytes: privateBytes.tmp } : { kind: 'link', target, to }
}

/** The innermost root a path lies in. */
export const rootAround = (path: string, roots: readonly WorkspaceRoot[]): WorkspaceRoot | undefined =>
  roots
    .filter((root) => isInside(path, root.target))
    .reduce<WorkspaceRoot | undefined>(
      (best, root) => (best === undefined || root.target.length > best.target.length ? root : best),
      undefined,
    )

/** A file of its own, straight from the writable layer or copy: it stays writable while the root is read-only. */
export function writableFileSteps(
  path: string,
  roots: readonly WorkspaceRoot[],
): readonly { readonly kind: 'writable'; readonly source: string; readonly target: string }[] {
  const root = rootAround(path, roots)
  if (root === undefined || root.access !== 'rw') return []
  const layer = root.mount.kind === 'overlay' ? root.mount.upper : root.mount.source
  return [{ kind: 'writable', source: layer + path.slice(root.target.length), target: path }]
}

export const hostsFile = (aliases: readonly { readonly host: string; readonly address: string }[]) =>
  [
    // Programs look their own machine up too.
    `127.0.0.1 localhost ${ownName}`,
    `::1 localhost ${ownName}`,
    ...aliases.map(({ host, address }) => `${address} ${host}`),
    '',
  ].join('\n')

/**
 * Bubblewrap's options for the view; `given` is the first of the descriptors it reads our own files from,
 * `terminal` the host's path of the agent's terminal, where it has one.
 */
export function viewOptions(
  steps: readonly ViewStep[],
  given: number,
  terminal: string | null,
): readonly string[] {
  let next = given
  return steps.flatMap((step): readonly string[] => {
    switch (step.kind) {
      case 'read-only':
      case 'layered':
        return ['--ro-bind', step.source, step.target]
      case 'writable':
        return ['--bind', step.source, step.target]
      case 'covered':
        return ['--ro-bind', step.target, step.target]
      case 'given':
        return ['--perms', '0444', '--ro-bind-data', String(next++), step.target]
      case 'private':
        return ['--perms', step.mode, '--size', String(step.bytes), '--tmpfs', step.target]
      case 'hidden':
        // A device where no devices are allowed: opening it is refused, to its owner too.
        if (step.of === 'file') return ['--ro-bind', '/dev/null', step.target]
        return ['--perms', '0000', '--size', '4096', '--tmpfs', step.target, '--remount-ro', step.target]
      case 'link':
        return ['--symlink', step.to, step.target]
      case 'devices':
        return ['--dev', step.target]
      case 'processes':
        return ['--proc', step.target]
      case 'root':
        return [step.access === 'ro' ? '--ro-bind' : '--bind', step.source, step.target]
      case 'sealed':
        return ['--remount-ro', step.target]
      case 'terminal':
        return terminal === null ? [] : ['--dev-bind', terminal, step.target]
    }
  })
}
