import { join } from 'node:path'
import { OrangeryError } from '../../shared/errors.ts'
import type { Limits } from '../../shared/spec.ts'
import type { DispatchId } from '../../shared/ids.ts'
import { cgroupName, type CgroupPlan, type Controller } from './cgroups.ts'
import type { HostFacts } from './host.ts'
import { writeProcessors } from './processors.ts'
import { together } from './reasons.ts'

/** How each limit that was asked for is enforced here. */
export type LimitsPlan = {
  readonly cgroup: CgroupPlan | null
  /** Properties of a systemd user scope around the whole sandbox. */
  readonly scope: readonly string[] | null
  /** RLIMIT_NPROC set inside, where a user namespace of its own counts per sandbox. */
  readonly processes: number | null
  /** CPUs the sandbox may run on, as `taskset` takes them. */
  readonly affinity: string | null
  readonly diskMb: number | null
  readonly timeoutS: number | null
  /** For people: limit by limit, by what means. */
  readonly means: readonly string[]
}

// Bubblewrap's own two processes and our gate live in the same group as the agent.
const ownProcesses = 3
// Under less a sandbox does not come to the agent's first instruction: what is probed before runs in the group too, and
// forks. RLIMIT_NPROC is set after that.
const fewest = { pids: 3, memory_mb: 4 }
const period = 100_000

function cannot(limit: string, why: string, hint: string): OrangeryError {
  return new OrangeryError('sandbox.limit_not_enforceable', `limit ${limit}: ${why}`, {
    kind: 'preflight',
    hint,
  })
}

function tooSmall(limits: Limits, name: keyof typeof fewest): readonly OrangeryError[] {
  const asked = limits[name]
  if (asked === undefined || asked >= fewest[name]) return []
  const why = `${asked} is too small for a sandbox to start in on this host`
  return [cannot(name, why, `Give at least ${fewest[name]}, or leave it out.`)]
}

type Wanted = { readonly controller: Controller; readonly settings: Readonly<Record<string, string>> }

function wantedSettings(limits: Limits, kind: 'v1' | 'v2'): readonly Wanted[] {
  const wanted: Wanted[] = []
  if (limits.memory_mb !== undefined) {
    const bytes = String(Math.round(limits.memory_mb * 1024 * 1024))
    wanted.push({
      controller: 'memory',
      settings:
        kind === 'v1' ? { 'memory.limit_in_bytes': bytes } : { 'memory.max': bytes, 'memory.swap.max': '0' },
    })
  }
  if (limits.cpus !== undefined) {
    const quota = String(Math.round(limits.cpus * period))
    wanted.push({
      controller: 'cpu',
      settings:
        kind === 'v1'
          ? { 'cpu.cfs_period_us': String(period), 'cpu.cfs_quota_us': quota }
          : { 'cpu.max': `${quota} ${period}` },
    })
  }
  if (limits.pids !== undefined) {
    wanted.push({ controller: 'pids', settings: { 'pids.max': String(limits.pids + ownProcesses) } })
  }
  return wanted
}

function scopeProperties(limits: Limits): readonly string[] {
  const properties: string[] = []
  if (limits.memory_mb !== undefined) {
    properties.push(`MemoryMax=${Math.round(limits.memory_mb * 1024 * 1024)}`, 'MemorySwapMax=0')
  }
  if (limits.cpus !== undefined) properties.push(`CPUQuota=${Math.round(limits.cpus * 100)}%`)
  // The holder's processes are in the scope too.
  if (limits.pids !== undefined) properties.push(`TasksMax=${limits.pids + ownProcesses + 6}`)
  return properties
}

/** What helps where RLIMIT_NPROC cannot limit processes; null where it can. */
export function noProcessLimit(host: Pick<HostFacts, 'tools' | 'uid'>): string | null {
  // The kernel exempts the real root from it, in whatever namespace.
  if (host.uid === 0) return 'Run it as an ordinary user, or leave the limit out.'
  return host.tools.prlimit === null ? 'sudo apt install util-linux' : null
}

/** Every limit that is asked for is enforced by some means, or this throws: never silently less. */
export function planLimits(limits: Limits, host: HostFacts, id: DispatchId): LimitsPlan {
  const means: string[] = []
  const folders = new Set<string>()
  const settings: { file: string; value: string }[] = []
  let scope: readonly string[] | null = null
  let processes: number | null = null
  let affinity: string | null = null
  const failures: OrangeryError[] = []

  if (host.cgroups.kind === 'systemd') {
    const properties = scopeProperties(limits)
    if (properties.length > 0) {
      scope = properties
      failures.push(...tooSmall(limits, 'memory_mb'), ...tooSmall(limits, 'pids'))
      means.push(`systemd user scope: ${properties.join(' ')}`)
    }
  } else {
    const kind = host.cgroups.kind === 'v2' ? 'v2' : 'v1'
    const parents = host.cgroups.kind === 'none' ? {} : host.cgroups.parents
    const why = host.cgroups.kind === 'none' ? host.cgroups.why : 'its control group is not ours to write'
    for (const { controller, settings: values } of wantedSettings(limits, kind)) {
      const parent = parents[controller]
      if (parent !== undefined) {
        if (controller === 'memory') failures.push(...tooSmall(limits, 'memory_mb'))
        if (controller === 'pids') failures.push(...tooSmall(limits, 'pids'))
        const folder = join(parent, cgroupName(id))
        folders.add(folder)
        for (const [name, value] of Object.entries(values)) {
          settings.push({ file: join(folder, name), value })
          means.push(`cgroup ${kind}: ${name} = ${value}`)
        }
      } else if (controller === 'pids' && noProcessLimit(host) === null) {
        processes = limits.pids ?? null
        means.push(`RLIMIT_NPROC inside the user namespace: ${processes}`)
      } else if (controller === 'cpu' && Number.isInteger(limits.cpus) && host.tools.taskset !== null) {
        // More than there are is kept anyway.
        affinity = writeProcessors(host.processors.slice(0, limits.cpus))
        means.push(`CPU affinity: ${affinity}`)
      } else if (controller === 'memory') {
        const hint = 'Run it where systemd keeps a user session, or leave the limit out.'
        failures.push(cannot('memory_mb', why, hint))
      } else if (controller === 'pids') {
        failures.push(cannot('pids', why, noProcessLimit(host) ?? 'Leave the limit out.'))
      } else {
        failures.push(cannot('cpus', why, 'Give a whole number of CPUs, or leave it out.'))
      }
    }
  }
  if (failures.length > 0) throw together(failures)
  if (limits.disk_mb !== undefined) means.push(`disk: workspace watched, stopped beyond ${limits.disk_mb} MB`)
  if (limits.timeout_s !== undefined) means.push(`time: stopped after ${limits.timeout_s} s`)
  const kind = host.cgroups.kind === 'v2' ? 'v2' : 'v1'
  return {
    cgroup: folders.size === 0 ? null : { kind, folders: [...folders], settings },
    scope,
    processes,
    affinity,
    diskMb: limits.disk_mb ?? null,
    timeoutS: limits.timeout_s ?? null,
    means,
  }
}
