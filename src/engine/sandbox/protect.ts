import { createHash } from 'node:crypto'
import { lstat, readdir, readFile, readlink } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Violation } from '../../shared/effective.ts'
import type { SandboxRequest } from '../base/sandbox.ts'

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
// Not what people change while they work beside an agent (sources, the index, branches): drift of those is
// found before apply.
const rootNames = ['.git/config', '.git/hooks', '.envrc', '.mcp.json', '.vscode']

const largestHashed = 1024 * 1024

/** Bytes, modes and names as they are; times only where bytes are not read. */
async function fingerprint(path: string): Promise<string> {
  const info = await lstat(path, { bigint: true }).catch(() => null)
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
  const { workspace } = request
  const roots = workspace.strategy === 'none' ? [] : workspace.roots.map((root) => root.path)
  return [
    ...homeNames.map((name) => join(home, name)),
    ...systemPaths,
    ...roots.flatMap((root) => rootNames.map((name) => join(root, name))),
  ]
}

export type Watch = { check(at: string): Promise<readonly Violation[]> }

/**
 * Notes how protected files are before a run, to see at its end whether they still are. The user may change
 * them meanwhile, and we cannot tell who did: a difference is a sign, not a proof.
 */
export async function watchProtected(request: SandboxRequest, home = homedir()): Promise<Watch> {
  const paths = protectedPaths(request, home)
  const look = () => Promise.all(paths.map(fingerprint))
  const before = await look()
  return {
    async check(at) {
      const after = await look()
      return paths
        .filter((_, index) => before[index] !== after[index])
        .map((path) => ({
          kind: 'host_changed',
          at,
          detail: `${path} is not as it was when the run began (by the user, or by an escape)`,
          certain: false,
        }))
    },
  }
}
