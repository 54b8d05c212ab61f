import { createHash } from 'node:crypto'
import { lstatSync, type BigIntStats } from 'node:fs'
import { lstat, readdir, readFile, readlink } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Violation } from '../../../shared/effective.ts'
import { run } from '../../base/process.ts'
import type { SandboxRequest } from '../../base/sandbox.ts'
import { pathText } from '../bytes.ts'

// What an attacker who got out would change first: what runs at the next login, shell, commit or update.
const homeNames = [
  '.bashrc',
  '.bash_profile',
  '.bash_login',
  '.profile',
  '.zshrc',
  '.zshenv',
  '.zprofile',
  '.config/fish/config.fish',
  '.ssh',
  '.ssh/authorized_keys',
  '.ssh/config',
  '.ssh/rc',
  '.gitconfig',
  '.config/git/config',
  '.npmrc',
  '.pypirc',
  '.cargo/config.toml',
  '.docker/config.json',
  '.config/autostart',
  '.config/systemd/user',
  '.local/bin',
  '.config/orangery/config.json',
  '.claude/settings.json',
  '.codex/config.toml',
]
const systemPaths = [
  '/etc/passwd',
  '/etc/group',
  '/etc/hosts',
  '/etc/ld.so.preload',
  '/etc/crontab',
  '/etc/profile',
]
// Of these every file is one that runs, or says what does.
const homeFolders = ['.ssh', '.config/autostart', '.config/systemd/user', '.local/bin']
// Of a root's `.git` not what people change while they work beside an agent (the index, branches).
const rootNames = ['.git/config', '.git/hooks', '.envrc', '.mcp.json', '.vscode']
const rootFolders = ['.git/hooks', '.vscode']

const largestHashed = 1024 * 1024

/** At once: most of them are not there, and an agent waits for this. */
function factsOf(path: string): BigIntStats | null {
  try {
    return lstatSync(path, { bigint: true, throwIfNoEntry: false }) ?? null
  } catch {
    return null
  }
}

/** Bytes, modes and names as they are; times only where bytes are not read. */
async function fingerprint(path: string): Promise<string> {
  const info = factsOf(path)
  if (info === null) return 'absent'
  const kind = `${info.mode.toString(8)} ${info.uid} ${info.gid}`
  if (info.isSymbolicLink()) return `${kind} to ${await readlink(path).catch(() => '')}`
  if (info.isDirectory()) return `${kind} holds ${(await readdir(path).catch(() => [])).sort().join('\0')}`
  if (!info.isFile() || info.size > largestHashed) return `${kind} ${info.size} ${info.mtimeNs} ${info.ino}`
  const bytes = await readFile(path).catch(() => null)
  return `${kind} ${bytes === null ? 'unreadable' : createHash('sha256').update(bytes).digest('hex')}`
}

/** Files of the host that no dispatch may change, whatever its level: the user's, the system's and the roots'. */
export function protectedPaths(request: SandboxRequest, home = homedir()): readonly string[] {
  return [...homeNames.map((name) => join(home, name)), ...systemPaths, ...inRoots(request, rootNames)]
}

/** The user's own files, where the agent is not to write them. */
const realRoots = ({ workspace }: SandboxRequest) => (workspace.strategy === 'none' ? [] : workspace.roots)

/** Where these are in each root; of a common `.git` that a worktree needs besides, those of it. */
const inRoots = (request: SandboxRequest, names: readonly string[]): readonly string[] =>
  realRoots(request).flatMap(({ path, role }) => {
    if (role === 'project') return names.map((name) => join(path, name))
    return names.flatMap((name) => (name.startsWith('.git/') ? [join(path, name.slice(5))] : []))
  })

const protectedFolders = (request: SandboxRequest, home: string): readonly string[] => [
  ...homeFolders.map((name) => join(home, name)),
  ...inRoots(request, rootFolders),
]

// What programs of the user write there as a matter of course.
const everyday = /^known_hosts/

/**
 * Entries of a protected folder that changed since then. The kernel sets that time itself, so nothing has to be noted
 * beforehand, and nobody can set it back.
 */
async function changedEntries(folder: string, sinceMs: number): Promise<readonly string[]> {
  const names = await readdir(folder).catch((): string[] => [])
  const watched = names.filter((name) => !everyday.test(name)).map((name) => join(folder, name))
  const infos = await Promise.all(watched.map((path) => lstat(path).catch(() => null)))
  return watched.filter((_, index) => (infos[index]?.ctimeMs ?? 0) > sinceMs)
}

const walkMs = 5000
const mostNamed = 10

type RootChange = { readonly root: string; readonly paths: readonly string[]; readonly isWhole: boolean }

/** What of a root changed since then. Not its `.git`, which the user's own commits change; what runs there is protected. */
async function changedInRoot(root: string, sinceMs: number): Promise<RootChange> {
  const since = ['-newerct', `@${(sinceMs / 1000).toFixed(3)}`]
  const tests = ['-name', '.git', '-prune', '-o', ...since, '-printf', String.raw`%y%p\0`]
  const found = await run('find', [root, '-xdev', ...tests], { cwd: '/', timeoutMs: walkMs }).catch(
    () => null,
  )
  const lines = found?.stdout.toString('latin1').split('\0').slice(0, -1) ?? []
  const pathOf = (line: string) => pathText(Buffer.from(line.slice(1), 'latin1'))
  const holders = new Set(lines.map((line) => dirname(pathOf(line))))
  // A folder changes with every name in it: it is told only where a name is gone.
  const paths = lines.flatMap((line) => {
    const path = pathOf(line)
    return line.startsWith('d') && holders.has(path) ? [] : [path]
  })
  return { root, paths, isWhole: found !== null && found.signal === null }
}

const inWords = (root: string, path: string) =>
  JSON.stringify(path === root ? '.' : path.slice(root.length + 1))

/** Who changed a file the kernel does not say. The agent's own writes are elsewhere: it is likely somebody else. */
function describeRoot({ root, paths, isWhole }: RootChange): string | null {
  const unseen = isWhole ? '' : `${root} was too large to look through to its end in ${walkMs / 1000} s`
  if (paths.length === 0) return isWhole ? null : unseen
  const named = paths.slice(0, mostNamed).map((path) => inWords(root, path))
  const more = paths.length > mostNamed ? ` and ${paths.length - mostNamed} more` : ''
  const what = `${root} was changed on the host meanwhile: ${named.join(', ')}${more}`
  const who =
    "not through this agent's workspace: likely by the user or another program, or else by an escape"
  return `${what} (${who})${unseen === '' ? '' : `; ${unseen}`}`
}

/** `ours`: files that are as we wrote them ourselves. */
export type Watch = { check(at: string, ours?: readonly string[]): Promise<readonly Violation[]> }

/**
 * Notes how protected files are before a run, to see at its end whether they and the roots still are. The user may
 * change them meanwhile, and we cannot tell who did: a difference is a sign, not a proof.
 */
export async function watchProtected(request: SandboxRequest, home = homedir()): Promise<Watch> {
  const sinceMs = Date.now()
  const paths = protectedPaths(request, home)
  const look = () => Promise.all(paths.map(fingerprint))
  const before = await look()
  const changed = (detail: string, at: string): Violation => ({
    kind: 'host_changed',
    at,
    detail,
    certain: false,
  })
  return {
    async check(at, ours = []) {
      const [after, entries, roots] = await Promise.all([
        look(),
        Promise.all(protectedFolders(request, home).map((folder) => changedEntries(folder, sinceMs))),
        Promise.all(realRoots(request).map(({ path }) => changedInRoot(path, sinceMs))),
      ])
      const differing = paths.filter((_, index) => before[index] !== after[index])
      const told = new Set([...differing, ...entries.flat()].filter((path) => !ours.includes(path)))
      const isTold = (path: string) => told.has(path) || [...told].some((one) => one.startsWith(`${path}/`))
      return [
        ...[...told].map((path) =>
          changed(`${path} is not as it was when the run began (by the user, or by an escape)`, at),
        ),
        ...roots.flatMap((root) => {
          const detail = describeRoot({
            ...root,
            paths: root.paths.filter((path) => !isTold(path) && !ours.includes(path)),
          })
          return detail === null ? [] : [changed(detail, at)]
        }),
      ]
    },
  }
}
