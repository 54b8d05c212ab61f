import { readFile } from 'node:fs/promises'
import { run } from '../../base/process.ts'
import type { Ability } from './ability.ts'
import { looserContainer } from './container.ts'

const namespaceKinds = ['user', 'mnt', 'net', 'pid', 'ipc', 'uts', 'cgroup'] as const
type NamespaceKind = (typeof namespaceKinds)[number]
/** A start takes several of a kind, and starts are tried side by side. */
const few = 16

/** What the host shows when it refuses user namespaces, or others within them. */
export type RefusalSigns = {
  /** The kinds of which this user may have none: user.max_KIND_namespaces is 0. */
  readonly none: readonly NamespaceKind[]
  /** Those of which it may have only some. */
  readonly few: readonly NamespaceKind[]
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

const settingsOf = (kinds: readonly NamespaceKind[]) => kinds.map((kind) => `user.max_${kind}_namespaces`)
const raise = (kinds: readonly NamespaceKind[]): string =>
  `sudo sysctl -w ${settingsOf(kinds)
    .map((setting) => `${setting}=15000`)
    .join(' ')}`

/** Why a user namespace cannot be made here, from the surest sign to the vaguest, and what helps; null without a sign. */
function explainBySigns({ none, few: scarce, clone, apparmor, mounts, said }: RefusalSigns): Ability | null {
  const [kind] = none
  if (kind !== undefined)
    return {
      ok: false,
      why: `${kind} namespaces are switched off (${settingsOf(none).join(', ')} is 0)`,
      fix: raise(none),
    }
  if (clone?.trim() === '0') {
    return {
      ok: false,
      why: 'user namespaces are switched off for ordinary users and within others (kernel.unprivileged_userns_clone is 0)',
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
  if (/No space left|ENOSPC/.test(said)) {
    const kinds = scarce.length > 0 ? scarce : (['user'] as const)
    return {
      ok: false,
      why: `the limit of ${kinds.join(', ')} namespaces is too small or reached (${settingsOf(kinds).join(', ')}, here or in what runs around us)`,
      fix: raise(kinds),
    }
  }
  if (mounts !== null && isChroot(mounts)) {
    return {
      ok: false,
      why: 'we run in a chroot, where the kernel makes no user namespaces',
      fix: 'Enter the folder with systemd-nspawn or pivot_root instead of chroot.',
    }
  }
  return null
}

export function explainRefusal(signs: RefusalSigns): Ability {
  const explained = explainBySigns(signs)
  if (explained !== null) return explained
  const { inside, said } = signs
  if (inside !== null) {
    return {
      ok: false,
      why: /mount \/?proc/.test(said)
        ? `${inside} around us covers parts of /proc, and so the kernel gives no other namespace one of its own (${said})`
        : `${inside} around us refuses user namespaces (${said})`,
      fix: looserContainer(inside),
    }
  }
  return {
    ok: false,
    why: `the kernel refuses user namespaces (${said})`,
    fix: 'Use a kernel with CONFIG_USER_NS, 5.11 or newer.',
  }
}

/**
 * The same where one could be made, but bubblewrap says of another within it that it cannot; null where it says
 * something else. Root is ordinary in there, and of what a user may have of them it takes two.
 */
export function explainNested(signs: RefusalSigns): Ability | null {
  return /namespace|user ?ns/i.test(signs.said) ? explainBySigns(signs) : null
}

const readText = (path: string): Promise<string | null> => readFile(path, 'utf8').catch(() => null)

export async function readSigns(inside: string | null, said: string): Promise<RefusalSigns> {
  const [clone, apparmor, mounts, ...most] = await Promise.all(
    [
      '/proc/sys/kernel/unprivileged_userns_clone',
      '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
      '/proc/self/mountinfo',
      ...namespaceKinds.map((kind) => `/proc/sys/user/max_${kind}_namespaces`),
    ].map(readText),
  )
  return {
    none: namespaceKinds.filter((_, at) => most[at]?.trim() === '0'),
    few: namespaceKinds.filter((_, at) => Number(most[at] ?? few) > 0 && Number(most[at] ?? few) < few),
    clone: clone ?? null,
    apparmor: apparmor ?? null,
    inside,
    mounts: mounts ?? null,
    said,
  }
}

export async function detectUserNamespaces(unshare: string | null, inside: string | null): Promise<Ability> {
  if (unshare === null) {
    return { ok: false, why: 'unshare is not installed', fix: 'sudo apt install util-linux' }
  }
  // What the holder will do, in small: the mount of proc is what containers commonly refuse.
  const args = ['-Urmnpiuf', '--kill-child=KILL', '--mount-proc', 'true']
  const tried = await run(unshare, args, { timeoutMs: 5000 })
  const signs = await readSigns(inside, tried.stderr.toString().trim().split('\n')[0] ?? '')
  if (tried.code !== 0) return explainRefusal(signs)
  if (signs.few.length === 0) return { ok: true }
  return {
    ok: false,
    why: `this user may have fewer than ${few} ${signs.few.join(', ')} namespaces (${settingsOf(signs.few).join(', ')}), and a start takes several`,
    fix: raise(signs.few),
  }
}
