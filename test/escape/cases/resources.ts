import { readFile, stat } from 'node:fs/promises'
import { rm } from 'node:fs/promises'
import type { EscapeCase } from '../case.ts'
import type { World } from '../world.ts'

const processLimit = 20

async function residentMb(world: World): Promise<number> {
  const sizes = await Promise.all(
    (await world.processes()).map(async (pid) => {
      const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
      return Number(/^VmHWM:\s*(\d+)/m.exec(status)?.[1] ?? 0) / 1024
    }),
  )
  return Math.max(0, ...sizes)
}

export const resources: readonly EscapeCase[] = [
  {
    id: 'fork-bomb',
    group: 'Resources',
    attack: 'starts processes without end',
    guard: 'limit pids: a control group, or RLIMIT_NPROC in a user namespace of its own',
    claim: 'blocked',
    stage: async (world) => ({
      probe: `perl -e 'for (1..80) { fork or do { sleep 60; exit } } sleep 60' ${world.mark} & sleep $pause`,
      live: true,
      escaped: async () => (await world.processes()).length > processLimit + 1,
      request: { limits: { pids: processLimit } },
    }),
  },
  {
    id: 'memory-hog',
    group: 'Resources',
    attack: 'takes all memory',
    guard: 'limit memory_mb: a control group',
    claim: 'blocked',
    // Without a control group of its own an ordinary user's spec that asks for this fails preflight.
    only: 'root',
    stage: async (world) => ({
      probe: `perl -e '$x = "x" x 200_000_000; sleep 60' ${world.mark} & sleep $pause`,
      live: true,
      escaped: async () => (await residentMb(world)) > 100,
      request: { limits: { memory_mb: 64 } },
    }),
  },
  ...(['/dev/shm', '/tmp'] as const).map((folder): EscapeCase => ({
    id: `fill${folder.replaceAll('/', '-')}`,
    group: 'Resources',
    attack: `fills ${folder}, which is memory of the host`,
    guard: 'private, with a size',
    claim: 'blocked',
    stage: async (world) => {
      const path = `${folder}/${world.mark}`
      const size = folder === '/tmp' ? '2100M' : '600M'
      world.defer(() => rm(path, { force: true }))
      return {
        probe: `fallocate -l ${size} ${path}; perl -e 'sleep 60' ${world.mark} & sleep $pause`,
        live: true,
        escaped: async () => {
          const [pid] = await world.processes()
          const seen = await stat(`/proc/${pid}/root${path}`).catch(() => null)
          return (seen?.blocks ?? 0) * 512 > 550 * 1024 * 1024
        },
      }
    },
  })),
]
