import type { CheckResult } from '../../../shared/doctor.ts'
import type { SandboxLevel } from '../../../shared/level.ts'
import type { WorkspaceStrategy } from '../../../shared/spec.ts'
import { ownHomes, type KeyPlace } from '../../base/homes.ts'
import { parseMounts } from './mounts.ts'
import { isInside, overlaps } from './pathSafety.ts'
import type { Project } from './project.ts'

/** Folders of the system: one of them, or anything that contains one, is no project. */
const systemDirs = [
  '/home',
  '/opt',
  '/root',
  '/tmp',
  '/usr/local/bin',
  '/usr/local/etc',
  '/usr/local/lib',
  '/usr/local/sbin',
  '/usr/local/share',
  '/usr/src',
  '/var/cache',
  '/var/lib',
  '/var/log',
  '/var/tmp',
  '/Applications',
  '/Library',
  '/Users',
  '/private/tmp',
  '/private/var',
]
/**
 * Folders of the system in which nothing at all is a project. Paths come with their links followed: where `/bin` leads to
 * `/usr/bin`, only that name is ever seen here.
 */
const sealedDirs = [
  '/bin',
  '/boot',
  '/dev',
  '/etc',
  '/gnu/store',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/nix/store',
  '/proc',
  '/run',
  '/sbin',
  '/snap',
  '/sys',
  '/usr/bin',
  '/usr/games',
  '/usr/include',
  '/usr/lib',
  '/usr/lib32',
  '/usr/lib64',
  '/usr/libexec',
  '/usr/libx32',
  '/usr/sbin',
  '/usr/share',
  '/var/cache/apt',
  '/var/lib/apt',
  '/var/lib/dpkg',
  '/var/lib/pacman',
  '/var/lib/rpm',
  '/var/lib/systemd',
  '/var/mail',
  '/var/spool',
  '/Library/LaunchAgents',
  '/Library/LaunchDaemons',
  '/System',
  '/private/etc',
]

const overlaid = 'which an overlay cannot carry'
/** Why what is mounted in a root is in the way. */
const unfitFor: Readonly<Record<WorkspaceStrategy, string>> = {
  overlay: overlaid,
  worktree: overlaid,
  clone: 'which a copy does not go into',
  none: 'which no boundary would hold: the sandbox takes the folder alone',
}

export type CheckRootsOptions = {
  readonly strategy?: WorkspaceStrategy
  readonly level?: SandboxLevel
  /** Those the user can look into, with links followed. */
  readonly homes?: readonly string[]
  /** Those of the homes that are there. */
  readonly keyFolders?: readonly KeyPlace[]
}

/** Whether the roots can carry a workspace at all. Pure: the caller reads mountinfo (empty where there is none). */
export function checkRoots(
  project: Project,
  dataDir: string,
  mountinfoText: string,
  options: CheckRootsOptions = {},
): CheckResult[] {
  const homes = options.homes ?? ownHomes()
  const mounts = parseMounts(mountinfoText).map(({ point }) => point)
  const results: CheckResult[] = []
  for (const { path, target } of project.roots) {
    // The upper layer would lie inside the lower one, and the agent would see our records.
    const holdsData = isInside(dataDir, path)
    results.push({
      name: 'data folder',
      ok: !holdsData,
      detail: holdsData
        ? `${target} contains Orangery's data folder ${dataDir}`
        : `${target} is apart from the data folder`,
      fix: holdsData ? 'Name a narrower folder, or set ORANGERY_DATA_DIR to a folder outside of it.' : null,
    })
    const isTree = isSandboxTree(path, dataDir)
    // By its place, since a marker can be lost: `git clean -fdx` takes it along. (invariant 1)
    const isWritten = isTree && options.strategy === 'none'
    const insideData = !holdsData && isInside(path, dataDir) && (!isTree || isWritten)
    results.push({
      name: 'own folder',
      ok: !insideData,
      detail: !insideData
        ? `${target} is not one of our own folders`
        : isWritten
          ? `${target} is an integration or sandbox tree, which no agent writes directly`
          : `${target} lies in Orangery's data folder`,
      fix: !insideData
        ? null
        : isWritten
          ? 'Use the overlay or worktree strategy.'
          : 'Name a folder of your own.',
    })
    // As it was named, too: /proc/self/cwd is another folder to whoever looks.
    const system =
      systemReason(path, homes) ?? (isInside(target, '/proc') ? 'lies in a folder of the system' : null)
    results.push({
      name: 'system folder',
      ok: system === null,
      detail: system === null ? `${target} is no system folder` : `${target} ${system}`,
      fix: system === null ? null : 'Name the folder of one project.',
    })
    // Whoever stands in ~/.ssh and starts an agent did not mean to show it the keys.
    const keys = keysReason(path, options.keyFolders ?? [])
    results.push({
      name: 'keys',
      ok: keys === null,
      detail: keys === null ? `${target} is no place of keys and tokens` : `${target} ${keys}`,
      fix:
        keys === null
          ? null
          : 'Name the folder of one project. What an agent is to read of your keys, its card names (sandboxRequirements.read).',
    })
    const { strategy = 'overlay' } = options
    // At level 0 nothing is mounted for such an agent, and nothing held.
    const isBare = strategy === 'none' && options.level === 0
    const inner = isBare ? [] : mounts.filter((mount) => mount !== path && isInside(mount, path))
    results.push({
      name: 'mounts inside',
      ok: inner.length === 0,
      detail:
        inner.length === 0
          ? `${target} has no other filesystem mounted inside`
          : `${target} has ${inner.slice(0, 3).join(', ')} mounted inside, ${unfitFor[strategy]}`,
      fix: inner.length === 0 ? null : 'Name a narrower folder, or unmount it first.',
    })
  }
  return results
}

function systemReason(path: string, homes: readonly string[]): string | null {
  if (path === '/') return 'is the whole system'
  const home = homes.find((each) => isInside(each, path))
  const whose = home !== undefined && ownHomes().includes(home) ? 'your' : 'a'
  if (home !== undefined) return `${home === path ? 'is' : 'contains'} ${whose} home folder`
  if ([...systemDirs, ...sealedDirs].some((dir) => isInside(dir, path))) return 'is a folder of the system'
  // Shared memory is a place for files like any other.
  const isSealed = sealedDirs.some((dir) => isInside(path, dir)) && !path.startsWith('/dev/shm/')
  if (isSealed) return 'lies in a folder of the system'
  return null
}

function keysReason(path: string, keyFolders: readonly KeyPlace[]): string | null {
  for (const { path: place, real } of keyFolders) {
    if (path === place || path === real) return 'is where keys and tokens are kept'
    if (isInside(path, place) || isInside(path, real))
      return `lies in ${place}, where keys and tokens are kept`
    // Not where a link leads: who keeps his dot files in a repository works on them there.
    if (isInside(place, path)) return `contains ${place}, where keys and tokens are kept`
  }
  return null
}

/** Integration trees and sandbox trees live in the data folder and are projects all the same. */
export function isSandboxTree(path: string, dataDir: string): boolean {
  return /^\/repos\/[0-9a-f]{16}\/(sandboxes|worktrees)\/[^/]+\/tree(\/|$)/.test(path.slice(dataDir.length))
}

/** Whether the data folder and a root are tangled in either direction. */
export function isTangled(root: string, dataDir: string): boolean {
  return overlaps(root, dataDir) && !isSandboxTree(root, dataDir)
}
