import { access, readFile } from 'node:fs/promises'

const marks = [
  ['/.dockerenv', 'Docker'],
  ['/run/.containerenv', 'Podman'],
] as const

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

/** What runs around us, by the name its users know it by; null on a plain host. */
export async function detectContainer(): Promise<string | null> {
  for (const [path, name] of marks) if (await isThere(path)) return name
  const groups = await readFile('/proc/1/cgroup', 'utf8').catch(() => '')
  const found = /docker|containerd|kubepods|lxc/.exec(groups)?.[0]
  return found === undefined ? null : (known[found] ?? found)
}
const known: Readonly<Record<string, string>> = { docker: 'Docker', kubepods: 'Kubernetes', lxc: 'LXC' }

const startedBy = (container: string, options: string): string =>
  `${container === 'Podman' ? 'podman' : 'docker'} run ${options} …`

const unconfined = '--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt'

/** How it is to be started so that a sandbox can be made within: namespaces of its own, each with a whole /proc. */
export function looserContainer(container: string): string {
  if (container === 'Kubernetes')
    return 'Give the pod a securityContext with seccompProfile Unconfined and procMount Unmasked.'
  if (container === 'LXC') return 'lxc config set NAME security.nesting true'
  return startedBy(
    container,
    `${unconfined} ${container === 'Podman' ? 'unmask=ALL' : 'systempaths=unconfined'}`,
  )
}

/** How it gets a folder that is no overlay; null where we know no command for it. */
export function containerVolume(container: string | null, folder: string): string | null {
  return container === 'Docker' || container === 'Podman'
    ? startedBy(container, `--volume orangery:${folder}`)
    : null
}

export function containerFuse(container: string | null): string | null {
  return container === 'Docker' || container === 'Podman' ? startedBy(container, '--device /dev/fuse') : null
}
