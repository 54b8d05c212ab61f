import { existsSync, lstatSync, readdirSync } from 'node:fs'
import { lstat, readlink, realpath, stat } from 'node:fs/promises'
import { ownHomes } from '../base/homes.ts'
import { run, systemFolders, type RunResult } from '../base/process.ts'
import type { Ability } from './ability.ts'
import { pathBytes, pathText } from './bytes.ts'
import type { SecretPath } from './etc.ts'

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
export const softwareFolders: readonly string[] = ['/opt', '/usr/local']
export const softwareBounds = { depth: '6', timeoutMs: 30_000 }

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
  { uid = process.getuid?.(), timeoutMs = softwareBounds.timeoutMs } = {},
): Promise<Secrets> {
  const searchedAtMs = Date.now()
  if (find === null) {
    const fix = 'sudo apt install findutils'
    return {
      secretPaths: [],
      secretSearch: { ok: false, why: 'find is not installed', fix },
      etcFolders: [],
      searchedAtMs,
    }
  }
  const action = ['-readable', '-prune', '-printf', String.raw`%y%p\0`]
  // Its time first: what comes while it is looked through makes it another.
  const folders = ['-type', 'd', '-printf', String.raw`@%C@ %p\0`]
  const etc = run(find, [
    '/etc',
    '-xdev',
    ...folders,
    ',',
    '!',
    '-type',
    'l',
    '!',
    '-perm',
    '-o=r',
    ...action,
  ])
  // Only for root: others read there what is theirs or their group's, such as the programs they work with.
  // A folder that cannot be listed but entered holds programs for everyone.
  const closed = ['(', '-type', 'd', '!', '-perm', '-o=x', '-o', '!', '-type', 'd', '!', '-perm', '-o=r', ')']
  const software =
    uid === 0
      ? run(
          find,
          [
            ...softwareFolders,
            '-xdev',
            '-maxdepth',
            softwareBounds.depth,
            '!',
            '-type',
            'l',
            ...closed,
            ...action,
          ],
          { timeoutMs },
        )
      : null
  const listings = await Promise.all([etc, software])
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
  const secretPaths = lines
    .filter((line) => !line.startsWith('@'))
    .map((line) => ({
      kind: line.startsWith('d') ? ('folder' as const) : ('file' as const),
      path: read(line.slice(1)),
    }))
  const [ofEtc, ofSoftware] = listings
  const etcSearch = judgeSearch(ofEtc, '/etc')
  const isJudged = !etcSearch.ok || ofSoftware === null
  const secretSearch = isJudged ? etcSearch : judgeSearch(ofSoftware, softwareFolders.join(' and '))
  return { secretPaths, secretSearch, etcFolders, searchedAtMs }
}

const keyLists = ['/proc/keys', '/proc/key-users']

/**
 * Lists of the whole kernel in /proc: the user's keys, and run by root those that only root may read, which a process without
 * any capability could still open as their owner. Not every kernel has them, and there is nothing to cover then.
 */
export function detectKernelLists(uid = process.getuid?.()): readonly string[] {
  const keys = keyLists.filter((path) => existsSync(path))
  if (uid !== 0) return keys
  const closed = readdirSync('/proc', { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => `/proc/${name}`)
    .filter((path) => ((lstatSync(path, { throwIfNoEntry: false })?.mode ?? 0o777) & 0o077) === 0)
  return [...keys, ...closed]
}

export async function detectEtcFiles(): Promise<readonly string[]> {
  const paths = ['/etc/passwd', '/etc/group', '/etc/hosts', '/etc/resolv.conf']
  const infos = await Promise.all(paths.map((path) => lstat(path).catch(() => null)))
  return paths.filter((_, index) => infos[index]?.isFile() === true)
}
