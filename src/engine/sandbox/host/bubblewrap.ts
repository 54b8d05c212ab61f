import { stat } from 'node:fs/promises'
import { run } from '../../base/process.ts'
import type { Ability } from './ability.ts'
import { looserContainer } from './container.ts'
import { explainNested, readSigns } from './refusal.ts'

export type Bubblewrap = {
  readonly version: string
  readonly isSetuid: boolean
  /** Whether it makes a sandbox here: it may tell its version and be kept from all else. */
  readonly starts: Ability
}

// A container's seccomp filter may let namespaces be made and keep their host name from being set.
const smallest =
  '--unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts --unshare-cgroup-try --disable-userns --hostname orangery --cap-drop ALL --ro-bind / / --proc /proc --dev /dev -- true'

async function tryStart(path: string, inside: string | null): Promise<Ability> {
  const tried = await run(path, smallest.split(' '), { timeoutMs: 5000 }).catch(() => null)
  if (tried?.code === 0) return { ok: true }
  const said = tried?.stderr.toString().trim().split('\n')[0] ?? ''
  const refused = explainNested(await readSigns(inside, said))
  if (refused !== null) return refused
  if (inside !== null && /not permitted|denied/.test(said))
    return {
      ok: false,
      why: `${inside} around us refuses what it needs (${said})`,
      fix: looserContainer(inside),
    }
  return {
    ok: false,
    why: `it makes no sandbox here (${said || `it ended with ${tried?.code ?? tried?.signal ?? 'no word'}`})`,
    fix: 'sudo apt install --reinstall bubblewrap',
  }
}

/** Without `--disable-userns`, which 0.8 brought, the agent could make user namespaces of its own. */
export function isOldBubblewrap(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major === 0 && minor < 8
}

/** An older release has no newer one to install. */
export const newBubblewrap =
  'Install bubblewrap 0.8 or newer, which Debian has since 12 and Ubuntu since 23.04.'

/** Null where there is none that tells its version. */
export async function detectBubblewrap(
  path: string | null,
  inside: string | null,
): Promise<Bubblewrap | null> {
  if (path === null) return null
  const told = run(path, ['--version'], { timeoutMs: 5000 }).catch(() => null)
  const [said, info, starts] = await Promise.all([told, stat(path), tryStart(path, inside)])
  const version = /(\d+\.\d+(\.\d+)?)/.exec(said?.stdout.toString() ?? '')?.[1]
  return version === undefined ? null : { version, isSetuid: (info.mode & 0o4000) !== 0, starts }
}
