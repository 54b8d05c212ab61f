import { readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { OutputLog, outputLimit } from '../../../src/engine/dispatch/supervise/output.ts'
import type { EscapeCase } from '../case.ts'
import { staying } from '../staying.ts'
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

/** How many CPUs a process may use: its affinity, or the quota of its control group. */
async function cpusOf(pid: number): Promise<number> {
  const read = (path: string) => readFile(path, 'utf8').catch(() => '')
  const status = await read(`/proc/${pid}/status`)
  const mask = /^Cpus_allowed:\s*([\da-f,]+)/m.exec(status)?.[1] ?? ''
  const allowed = mask
    .replaceAll(',', '')
    .split('')
    .reduce(
      (sum, digit) => sum + [...Number.parseInt(digit, 16).toString(2)].filter((b) => b === '1').length,
      0,
    )
  const groups = (await read(`/proc/${pid}/cgroup`)).split('\n').map((line) => line.split(':'))
  const quotas = await Promise.all(
    groups.map(async ([, names = '', ...path]) => {
      const folder = `/sys/fs/cgroup/${names}${path.join(':')}`
      const [quota = '', period = ''] = names === '' ? (await read(`${folder}/cpu.max`)).split(' ') : []
      const old = names.split(',').includes('cpu')
        ? Number(await read(`${folder}/cpu.cfs_quota_us`)) / Number(await read(`${folder}/cpu.cfs_period_us`))
        : 0
      return Number(quota) > 0 ? Number(quota) / Number(period) : old
    }),
  )
  return Math.min(allowed, ...quotas.filter((quota) => quota > 0))
}

/** What files of a folder take of the disk, as far as one looks into it: output lies at the top. */
async function bytesIn(folder: string): Promise<number> {
  const infos = await Promise.all((await readdir(folder)).map((name) => stat(join(folder, name))))
  return infos.reduce((sum, info) => sum + (info.isFile() ? info.blocks * 512 : 0), 0)
}

const flood = outputLimit + 32 * 1024 * 1024

const isRoot = process.getuid?.() === 0

export const resources: readonly EscapeCase[] = [
  {
    id: 'fork-bomb',
    group: 'Resources',
    attack: 'starts processes without end',
    guard: 'limit pids: a control group, or RLIMIT_NPROC in a user namespace of its own',
    claim: 'blocked',
    stage: async (world) => ({
      probe: staying(
        world,
        // When it is refused one it lets two go, for the shell that waits for it.
        'for (1..80) { $p = fork; if (!defined $p) { kill 9, splice(@p, 0, 2); wait; wait; last } if (!$p) { sleep 60; exit } push @p, $p }',
      ),
      live: true,
      escaped: async () => (await world.processes()).length > processLimit + 1,
      request: { limits: { pids: processLimit } },
    }),
  },
  {
    id: 'memory-hog',
    group: 'Resources',
    attack: 'takes all memory',
    guard:
      'limit memory_mb: a control group; without one of their own (an ordinary user) a spec that asks for it fails preflight',
    claim: isRoot ? 'blocked' : 'not claimed',
    stage: async (world) => ({
      probe: staying(world, '$x = "x" x 200_000_000'),
      live: true,
      escaped: async () => (await residentMb(world)) > 100,
      request: isRoot ? { limits: { memory_mb: 64 } } : {},
    }),
  },
  {
    id: 'cpu-spin',
    group: 'Resources',
    attack: 'spins on every CPU',
    guard: 'limit cpus: a control group, or an affinity that cannot be changed from inside',
    claim: 'blocked',
    stage: async (world) => ({
      probe: `taskset -a -p ffff $$; ${staying(world, 'fork')}`,
      live: true,
      request: { limits: { cpus: 1 } },
      // By what the kernel holds them to: how much they get on a busy machine says nothing.
      escaped: async () => {
        const bounds = await Promise.all((await world.processes()).map(cpusOf))
        return bounds.length === 0 || bounds.some((cpus) => cpus > 1)
      },
      tried: async () => (await world.processes()).length > 0,
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
      const mostMb = folder === '/tmp' ? 2048 : 512
      const steps = Math.ceil(mostMb / 100)
      // Piece by piece: a whole that is too large is refused as a whole, and shows nothing of where the end is.
      const fill = `i=0; while [ $i -le ${steps} ]; do fallocate -o $((i * 100))M -l 100M ${path} || break; i=$((i + 1)); done`
      world.defer(() => rm(path, { force: true }))
      return {
        probe: `${fill}; ${staying(world, '')}`,
        live: true,
        escaped: async () => {
          const [pid] = await world.processes()
          const seen = await stat(`/proc/${pid}/root${path}`).catch(() => null)
          return (seen?.blocks ?? 0) * 512 > mostMb * 1024 * 1024
        },
      }
    },
  })),
  {
    id: 'log-flood',
    group: 'Resources',
    attack: 'prints without end, to fill the disk with the record of what it printed',
    guard: 'of what is printed 64 MB are kept',
    claim: 'blocked',
    stage: async ({ ground, defer }) => {
      const log = await OutputLog.create(join(ground.dataDir, 'output.log'))
      defer(() => log[Symbol.asyncDispose]())
      const kept = async () => (await bytesIn(ground.dataDir)) + (await bytesIn(ground.folder))
      return {
        // Through a terminal every line feed would become two bytes, and nothing is to depend on that.
        probe: `head -c ${flood} /dev/zero`,
        patienceMs: 120_000,
        record: (chunk) => log.append(chunk),
        // Without what records it, it goes to a file.
        control: 'sandbox',
        tried: async () => Math.max(log.seen, await kept()) >= flood,
        escaped: async () => (await kept()) > outputLimit + 16 * 1024 * 1024,
      }
    },
  },
]
