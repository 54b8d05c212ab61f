import { existsSync, lstatSync, readdirSync } from 'node:fs'
import { lstat, readlink, realpath, stat } from 'node:fs/promises'
import { ownHomes } from '../../base/homes.ts'
import { run, systemFolders, type RunResult } from '../../base/process.ts'
import type { Ability } from '../host/ability.ts'
import { pathBytes, pathText } from '../bytes.ts'
import type { SecretPath } from './etc.ts'
import { searchedPlaces, type SearchedPlaces } from './searchedPlaces.ts'

/** A top-level entry of the system that the agent sees read-only. */
export type SystemEntry =
  | { readonly kind: 'folder'; readonly path: string }
  | { readonly kind: 'link'; readonly path: string; readonly target: string }

// Nothing below /home, /root, /var, /srv, /mnt or /run is part of the system an agent needs.
export const systemCandidates: readonly string[] = [
  '/usr',
  '/bin',
  '/sbin',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/etc',
  '/opt',
  '/nix',
  '/gnu',
]

export async function detectSystem(): Promise<readonly SystemEntry[]> {
  const entries = await Promise.all(
    systemCandidates.map(async (path): Promise<SystemEntry | null> => {
      const info = await lstat(path).catch(() => null)
      if (info === null) return null
      return info.isSymbolicLink()
        ? { kind: 'link', path, target: await readlink(path) }
        : { kind: 'folder', path }
    }),
  )
  return entries.filter((entry) => entry !== null)
}

const programFolders = new Set<string>([
  ...systemFolders,
  '/usr/local',
  '/usr/games',
  '/usr/lib',
  '/usr/share',
])

/** The user's own folders, and ours. */
export const privateFolders = (dataDir: string): readonly string[] => [...ownHomes(), dataDir]

/** A home or a data folder below a folder that is shown (HOME=/opt/ann) is as private as any. */
export async function privateAmongSystem(
  system: readonly SystemEntry[],
  folders: readonly string[],
  hidden: readonly SecretPath[] = [],
): Promise<readonly SecretPath[]> {
  const real = await Promise.all(folders.map((folder) => realpath(folder).catch(() => null)))
  const found = [...new Set(real)].filter(
    (folder): folder is string =>
      folder !== null &&
      !programFolders.has(folder) &&
      system.some(({ kind, path }) => kind === 'folder' && folder.startsWith(`${path}/`)),
  )
  // In what is hidden there is nothing left to cover.
  const covers = new Set([...found, ...hidden.map(({ path }) => path)])
  const inside = found.filter((folder) => {
    const isHidden = hidden.some(({ path }) => path === folder)
    return !isHidden && ![...covers].some((cover) => folder.startsWith(`${cover}/`))
  })
  // A user of the system has a folder of root's for a home.
  const owners = await Promise.all(inside.map(async (folder) => (await stat(folder)).uid))
  return inside.flatMap((path, index) =>
    owners[index] !== 0 || process.getuid?.() === 0 ? [{ kind: 'folder', path }] : [],
  )
}

// Software may be there in any amount: what lies deeper is not hidden. Looking through it takes milliseconds, on a busy
// machine with much of it seconds.
export const softwareBounds = { depth: '6', timeoutMs: 30_000 }

// `find` fails where it cannot go back to the folder it was started in, as below /root by `sudo -u`.
const cwd = '/'

// What an ordinary user may not read of it, and what goes meanwhile.
const usualComplaint = /^.*find: [‘'"].*[’'"]: (?:Permission denied|No such file or directory)$/gm

/** A search that failed, or was ended since it took too long, has found nothing, or not all. */
function judgeSearch({ code, signal, stderr }: RunResult, folders: string): Ability {
  if (signal === 'SIGKILL') {
    return {
      ok: false,
      why: `find did not finish looking through ${folders} for what other users may not read`,
      fix: 'Try again when the machine is less busy, or run Orangery as an ordinary user.',
    }
  }
  const said = stderr.toString().replaceAll(usualComplaint, '').trim()
  if (code === 0 || (code === 1 && stderr.length > 0 && said === '')) return { ok: true }
  return {
    ok: false,
    why: `find cannot look through ${folders} (${said.split('\n')[0] || `it ended with ${code ?? signal}`})`,
    fix: 'sudo apt install --reinstall findutils',
  }
}

/** A folder of /etc, and when a name in it last came or went, in milliseconds; the kernel alone sets that time. */
type EtcFolder = { readonly path: string; readonly changed: number }

export type Secrets = {
  readonly secretPaths: readonly SecretPath[]
  readonly secretSearch: Ability
  readonly etcFolders: readonly EtcFolder[]
  readonly searched: SearchedPlaces
  /** When the search began, in milliseconds. */
  readonly searchedAtMs: number
}

/** Whether a name came to /etc, or went, since they were looked for. At once: an agent waits for this. */
export function isEtcChanged({ etcFolders }: Pick<Secrets, 'etcFolders'>): boolean {
  return etcFolders.some(({ path, changed }) => {
    const facts = lstatSync(pathBytes(path), { throwIfNoEntry: false })
    // Such numbers tell microseconds apart.
    return facts === undefined || Math.abs(facts.ctimeMs - changed) > 0.001
  })
}

export async function detectSecrets(
  find: string | null,
  {
    uid = process.getuid?.(),
    timeoutMs = softwareBounds.timeoutMs,
    searched = searchedPlaces(),
  }: { uid?: number | undefined; timeoutMs?: number; searched?: SearchedPlaces } = {},
): Promise<Secrets> {
  const searchedAtMs = Date.now()
  if (find === null) {
    const fix = 'sudo apt install findutils'
    return {
      secretPaths: [],
      secretSearch: { ok: false, why: 'find is not installed', fix },
      etcFolders: [],
      searched,
      searchedAtMs,
    }
  }
  const action = ['-readable', '-prune', '-printf', String.raw`%y%p\0`]
  // Its time first: what comes while it is looked through makes it another.
  const folders = ['-type', 'd', '-printf', String.raw`@%C@ %p\0`]
  const notLink = ['!', '-type', 'l']
  // A folder in which others see names they cannot follow is closed too.
  const unlisted = ['-type', 'd', '!', '-perm', '-o=x']
  const etcClosed = ['(', '!', '-perm', '-o=r', '-o', ...unlisted, ')']
  const etcTests = ['-xdev', ...folders, ',', ...notLink, ...etcClosed, ...action]
  const etc = run(find, [...searched.etc, ...etcTests], { cwd, timeoutMs })
  // Only for root: others read there what is theirs or their group's, such as the programs they work with.
  // A folder that cannot be listed but entered holds programs for everyone.
  const closed = ['(', ...unlisted, '-o', '!', '-type', 'd', '!', '-perm', '-o=r', ')']
  const bounds = ['-xdev', '-maxdepth', softwareBounds.depth]
  const isRoot = uid === 0
  // Told of no place, `find` looks where it stands.
  const looksAtSoftware = isRoot && searched.software.length > 0
  const software = looksAtSoftware
    ? run(find, [...searched.software, ...bounds, ...notLink, ...closed, ...action], { cwd, timeoutMs })
    : null
  const apart = searched.unsearched.filter((path) => isRoot || path.startsWith('/etc/'))
  const names = judgeNames(apart)
  const mounts = apart.length === 0 || !names.ok ? null : listFolders(find, apart, timeoutMs)
  const listings = await Promise.all([etc, software, mounts])
  const lines = listings
    .flatMap((listing) => listing?.stdout.toString('latin1').split('\0') ?? [])
    .filter((line) => line !== '')
  const read = (latin: string) => pathText(Buffer.from(latin, 'latin1'))
  const etcFolders = lines.flatMap((line) => {
    const [, changed, path] = /^@([\d.]+) ([^]*)$/.exec(line) ?? []
    return changed === undefined || path === undefined
      ? []
      : [{ path: read(path), changed: Number(changed) * 1000 }]
  })
  const found = lines
    .filter((line) => !line.startsWith('@'))
    .map((line): SecretPath => {
      const path = read(line.slice(1))
      if (line.startsWith('m')) return { kind: 'folder', path, isMount: true }
      return { kind: line.startsWith('d') ? 'folder' : 'file', path }
    })
  const [ofEtc, ofSoftware, ofMounts] = listings
  const judged = [
    judgeSearch(ofEtc, '/etc'),
    ...(ofSoftware === null ? [] : [judgeSearch(ofSoftware, '/opt and /usr/local')]),
    ...(ofMounts === null ? [names] : [judgeSearch(ofMounts, apart.join(' and '))]),
  ]
  const secretSearch = judged.find(({ ok }) => !ok) ?? { ok: true }
  return { secretPaths: outermost(found), secretSearch, etcFolders, searched, searchedAtMs }
}

/**
 * Of mounts that are not looked through the folders: a file is looked at where it is mounted. What we cannot come to the
 * agent cannot either. Asked by another process, since a network may not answer.
 */
async function listFolders(find: string, paths: readonly string[], timeoutMs: number): Promise<RunResult> {
  const args = ['-maxdepth', '0', '-type', 'd', '-printf', String.raw`m%p\0`]
  return run(find, [...paths, ...args], { cwd, timeoutMs })
}

/** What nobody can be given the name of. */
function judgeNames(paths: readonly string[]): Ability {
  const odd = paths.find((path) => !path.isWellFormed())
  if (odd === undefined) return { ok: true }
  return {
    ok: false,
    why: `find cannot be given the name of what is mounted at ${JSON.stringify(odd)}`,
    fix: 'Mount it at a path that is text, or run Orangery as an ordinary user.',
  }
}

/** Each once, and without what lies in another: there is nothing left to cover. */
function outermost(paths: readonly SecretPath[]): readonly SecretPath[] {
  const byPath = new Map(paths.toReversed().map((each) => [each.path, each]))
  const isIn = (path: string): boolean => {
    for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1))
      if (byPath.get(path.slice(0, end))?.kind === 'folder') return true
    return false
  }
  return [...byPath.values()].filter(({ path }) => !isIn(path)).toReversed()
}

const keyLists = ['/proc/keys', '/proc/key-users']

/**
 * Lists of the whole kernel in /proc: the user's keys, and run by root those that only root may read, which a process without
 * any capability could still open as their owner. Not every kernel has them, and there is nothing to cover then.
 */
export function detectKernelLists(uid = process.getuid?.()): readonly string[] {
  const keys = keyLists.filter((path) => existsSync(path))
  if (uid !== 0) return keys
  // Names only: asked for kinds, Node throws where a process ends between its name and the look at it.
  const closed = readdirSync('/proc')
    .filter((name) => /\D/.test(name))
    .map((name) => `/proc/${name}`)
    .filter((path) => {
      const info = lstatSync(path, { throwIfNoEntry: false })
      return info?.isFile() === true && (info.mode & 0o077) === 0
    })
  return [...keys, ...closed]
}

export async function detectEtcFiles(): Promise<readonly string[]> {
  const paths = ['/etc/passwd', '/etc/group', '/etc/hosts', '/etc/resolv.conf']
  const infos = await Promise.all(paths.map((path) => lstat(path).catch(() => null)))
  return paths.filter((_, index) => infos[index]?.isFile() === true)
}
