import { join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import type { LimitsBy } from '../../../shared/effective.ts'
import type { Limits } from '../../../shared/spec.ts'
import { joinHints } from '../../../shared/joinHints.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import { cgroupName, swapLimit, type CgroupFacts, type CgroupPlan, type Controller } from './cgroups.ts'
import type { HostFacts } from '../host/host.ts'
import { writeProcessors } from '../host/processors.ts'
import { together } from '../plan/reasons.ts'
import { beyondHard, noProcessLimit } from './rlimit.ts'

export type ScopePlan = {
  readonly properties: readonly string[]
  readonly settings: Readonly<Record<string, string>>
}

/** How each limit that was asked for is enforced here. */
export type LimitsPlan = {
  readonly cgroup: CgroupPlan | null
  /** A systemd user scope around the whole sandbox: what it is asked for, and what its group then has to say. */
  readonly scope: ScopePlan | null
  /** RLIMIT_NPROC set inside, where a user namespace of its own counts per sandbox. */
  readonly processes: number | null
  /** CPUs the sandbox may run on, as `taskset` takes them. */
  readonly affinity: string | null
  readonly diskMb: number | null
  readonly timeoutS: number | null
  /** For people: limit by limit, by what means. */
  readonly means: readonly string[]
  /** The same for the record. */
  readonly by: LimitsBy
}

// Bubblewrap's own two processes and our gate live in the same group as the agent.
const ownProcesses = 3
/** What stands in the agent's group beside it: bubblewrap, outside and inside, and who made its session on a terminal. */
export const processesBeside = ({
  level,
  terminal,
}: {
  readonly level: number
  readonly terminal: boolean
}) => (level === 0 ? 0 : terminal ? ownProcesses : ownProcesses - 1)
// In a scope the holder's are too.
const holderProcesses = 6
// Under less a sandbox does not come to the agent's first instruction: what is probed before runs in the group too, and
// forks. RLIMIT_NPROC is set after that.
const fewest = { pids: 4, memory_mb: 4 }
const period = 100_000
// What a control group takes: no share of processors under a millisecond of its period, and no more processes than the
// kernel has numbers for.
const leastCpus = 1000 / period
const mostPids = 4_194_304 - ownProcesses - holderProcesses

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

/** The kernel refuses to be told so, and systemd would round it without a word. */
function beyondGroup(limits: Limits, controller: Controller): readonly OrangeryError[] {
  const { cpus, pids } = limits
  if (controller === 'cpu' && cpus !== undefined && cpus < leastCpus) {
    const why = `${cpus} is less than the kernel can hold anything to`
    return [cannot('cpus', why, `Give at least ${leastCpus}, or leave it out.`)]
  }
  if (controller === 'pids' && pids !== undefined && pids > mostPids) {
    const why = `${pids} is more than the kernel has processes`
    return [cannot('pids', why, `Give at most ${mostPids}, or leave it out.`)]
  }
  return []
}

const limitOf = { memory: 'memory_mb', cpu: 'cpus', pids: 'pids' } as const satisfies Record<
  Controller,
  keyof Limits
>

type Wanted = {
  readonly controller: Controller
  readonly settings: Readonly<Record<string, string>>
  /** The same as a scope is asked for it. */
  readonly properties: readonly string[]
}

function wantedSettings(
  limits: Limits,
  kind: 'systemd' | 'v1' | 'v2',
  countsSwap: boolean,
  beside: number,
): readonly Wanted[] {
  const wanted: Wanted[] = []
  if (limits.memory_mb !== undefined) {
    const bytes = String(Math.round(limits.memory_mb * 1024 * 1024))
    wanted.push({
      controller: 'memory',
      settings:
        kind === 'v1'
          ? // In this order: the kernel takes none of both that is less than that of memory alone.
            { 'memory.limit_in_bytes': bytes, ...(countsSwap ? { [swapLimit]: bytes } : {}) }
          : { 'memory.max': bytes, 'memory.swap.max': '0' },
      properties: [`MemoryMax=${bytes}`, 'MemorySwapMax=0'],
    })
  }
  if (limits.cpus !== undefined) {
    // Systemd takes whole percents.
    const percent = Math.max(1, Math.round(limits.cpus * 100))
    const quota = String(kind === 'systemd' ? percent * (period / 100) : Math.round(limits.cpus * period))
    wanted.push({
      controller: 'cpu',
      settings:
        kind === 'v1'
          ? { 'cpu.cfs_period_us': String(period), 'cpu.cfs_quota_us': quota }
          : { 'cpu.max': `${quota} ${period}` },
      properties: [`CPUQuota=${percent}%`],
    })
  }
  if (limits.pids !== undefined) {
    const most = String(limits.pids + beside + (kind === 'systemd' ? holderProcesses : 0))
    wanted.push({ controller: 'pids', settings: { 'pids.max': most }, properties: [`TasksMax=${most}`] })
  }
  return wanted
}

/**
 * As many of the processors as were asked for, if there are more. Sandboxes know nothing of each other: were it always the
 * first, all would share them and leave the others idle. The end of an id is random.
 */
function shareOf(processors: readonly number[], count: number, id: DispatchId): readonly number[] {
  if (count >= processors.length) return processors
  const first = (Number.parseInt(id.slice(-4), 16) || 0) * count
  const share = new Set(
    Array.from({ length: count }, (_, index) => processors[(first + index) % processors.length]),
  )
  return processors.filter((processor) => share.has(processor))
}

const cpusHint = ({ cpus }: Limits, { tools }: Pick<HostFacts, 'tools'>): string =>
  tools.taskset === null && Number.isInteger(cpus)
    ? 'sudo apt install util-linux'
    : 'Give a whole number of CPUs, or leave it out.'

/** Why control groups do not hold what this controller would. */
export function noGroup(cgroups: CgroupFacts, controller: Controller): string {
  return cgroups.kind === 'none' ? cgroups.why : `no control group for ${controller} is ours to write`
}

/** What to do without one, and the command after which there is one. */
export function groupHint({ more }: CgroupFacts, otherwise: string): string {
  return joinHints([otherwise, ...(more == null ? [] : [`To have it held ${more}`])])
}
export const memoryHint = 'Run it where systemd keeps a user session, or leave the limit out.'

/** Every limit that is asked for is enforced by some means, or this throws: never silently less. */
export function planLimits(
  limits: Limits,
  host: HostFacts,
  id: DispatchId,
  beside = ownProcesses,
): LimitsPlan {
  const means: string[] = []
  const folders = new Set<string>()
  const settings: { file: string; value: string }[] = []
  const properties: string[] = []
  const scopeSettings: Record<string, string> = {}
  const by: { -readonly [Limit in keyof LimitsBy]: LimitsBy[Limit] } = {}
  let processes: number | null = null
  let affinity: string | null = null
  const failures: OrangeryError[] = []

  const { cgroups } = host
  const kind = cgroups.kind === 'none' ? 'v1' : cgroups.kind
  const parents = cgroups.kind === 'v1' || cgroups.kind === 'v2' ? cgroups.parents : {}
  const countsSwap = cgroups.kind === 'v1' && cgroups.countsSwap === true
  const hands = cgroups.kind === 'systemd' ? cgroups.hands : []
  for (const { controller, settings: values, properties: asked } of wantedSettings(
    limits,
    kind,
    countsSwap,
    beside,
  )) {
    const parent = parents[controller]
    const limit = limitOf[controller]
    const why = noGroup(cgroups, controller)
    if (parent !== undefined || hands.includes(controller)) {
      if (controller === 'memory') failures.push(...tooSmall(limits, 'memory_mb'))
      if (controller === 'pids') failures.push(...tooSmall(limits, 'pids'))
      failures.push(...beyondGroup(limits, controller))
    }
    if (hands.includes(controller)) {
      by[limit] = 'systemd-scope'
      properties.push(...asked)
      Object.assign(scopeSettings, values)
    } else if (parent !== undefined) {
      by[limit] = kind === 'v2' ? 'cgroup-v2' : 'cgroup-v1'
      const folder = join(parent, cgroupName(id))
      folders.add(folder)
      for (const [name, value] of Object.entries(values)) {
        settings.push({ file: join(folder, name), value })
        means.push(`cgroup ${kind}: ${name} = ${value}`)
      }
    } else if (controller === 'pids' && noProcessLimit(host) === null) {
      const beyond = beyondHard(limits.pids ?? 0, host)
      if (beyond !== null) failures.push(cannot('pids', beyond.why, beyond.hint))
      by[limit] = 'rlimit'
      processes = limits.pids ?? null
      means.push(`RLIMIT_NPROC inside the user namespace: ${processes}`)
    } else if (controller === 'cpu' && Number.isInteger(limits.cpus) && host.tools.taskset !== null) {
      by[limit] = 'affinity'
      affinity = writeProcessors(shareOf(host.processors, limits.cpus ?? 0, id))
      means.push(`CPU affinity: ${affinity}`)
    } else if (controller === 'memory') {
      failures.push(cannot('memory_mb', why, groupHint(cgroups, memoryHint)))
    } else if (controller === 'pids') {
      failures.push(cannot('pids', why, groupHint(cgroups, noProcessLimit(host) ?? 'Leave the limit out.')))
    } else {
      failures.push(cannot('cpus', why, groupHint(cgroups, cpusHint(limits, host))))
    }
  }
  if (properties.length > 0) means.unshift(`systemd user scope: ${properties.join(' ')}`)
  if (failures.length > 0) throw together(failures)
  if (limits.disk_mb !== undefined) {
    by.disk_mb = 'watch'
    means.push(`disk: workspace watched, stopped beyond ${limits.disk_mb} MB`)
  }
  if (limits.timeout_s !== undefined) {
    by.timeout_s = 'timer'
    means.push(`time: stopped after ${limits.timeout_s} s`)
  }
  return {
    cgroup:
      folders.size === 0 ? null : { kind: kind === 'v2' ? 'v2' : 'v1', folders: [...folders], settings },
    scope: properties.length === 0 ? null : { properties, settings: scopeSettings },
    processes,
    affinity,
    diskMb: limits.disk_mb ?? null,
    timeoutS: limits.timeout_s ?? null,
    means,
    by,
  }
}
