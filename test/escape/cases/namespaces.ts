import { readFile, readlink } from 'node:fs/promises'
import type { EscapeCase } from '../case.ts'
import { isThere, staying, stays } from '../staying.ts'
import type { World } from '../world.ts'

const kinds = ['user', 'mnt', 'uts', 'cgroup', 'pid', 'net', 'ipc'] as const

/** Which namespaces of ours a process of the probe stands in. */
async function sharedNamespaces(world: World): Promise<readonly string[]> {
  const found = await Promise.all(
    (await world.processes()).flatMap((pid) =>
      kinds.map(async (kind) => {
        const [theirs, ours] = await Promise.all(
          [pid, 'self'].map((who) => readlink(`/proc/${who}/ns/${kind}`).catch(() => null)),
        )
        return theirs !== null && theirs === ours ? [kind] : []
      }),
    ),
  )
  return found.flat()
}

/** Whether the session of a process of the probe was begun by somebody outside its process namespace. */
async function isInForeignSession(world: World): Promise<boolean> {
  const sessions = await Promise.all(
    (await world.processes()).map(async (pid) => {
      const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
      return /^NSsid:.*\t(\d+)$/m.exec(status)?.[1]
    }),
  )
  return sessions.includes('0')
}

export const namespaces: readonly EscapeCase[] = [
  {
    id: 'host-namespaces',
    group: 'Kernel',
    attack:
      'stands in a namespace of the host: its users, mounts, name, control groups, processes, network or shared memory',
    guard: 'a namespace of each kind of its own',
    claim: 'blocked',
    stage: async (world) => ({
      probe: staying(world, '1'),
      live: true,
      escaped: async () => (await sharedNamespaces(world)).length > 0,
      tried: () => isThere(world),
    }),
  },
  {
    id: 'host-session',
    group: 'Kernel',
    attack: 'stands in the session of who started it, whose terminal is /dev/tty to it',
    guard: 'a session of its own',
    claim: 'blocked',
    stage: async (world) => ({
      // On the host in a process namespace that keeps the session; inside that is what we are in anyway.
      probe: `perl=perl; unshare -Urpf --kill-child true 2>/dev/null && perl='unshare -Urpf --kill-child perl'; $perl -e '${stays}' ${world.mark} & settled $!`,
      live: true,
      escaped: () => isInForeignSession(world),
      tried: () => isThere(world),
    }),
  },
  {
    id: 'kernel-lists',
    group: 'Kernel',
    attack:
      'reads what the kernel tells only root of its memory: slabinfo, vmallocinfo, kpageflags and the like',
    guard: 'files of /proc that only root may read are covered',
    claim: 'blocked',
    only: 'root',
    stage: async (world) => ({
      probe:
        'for list in slabinfo vmallocinfo timer_list pagetypeinfo kpageflags kpagecount; do head -c 64 /proc/$list; done >~/loot',
      escaped: async () => (await world.loot()) !== '',
    }),
  },
]
