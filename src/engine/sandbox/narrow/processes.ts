import { readFileSync } from 'node:fs'
import type { SandboxPlan } from '../plan/plan.ts'

/** /proc is memory of the kernel: reading it waits for nothing, and a trip to the thread pool costs ten times more. */
export function readProcess(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8')
  } catch {
    return ''
  }
}

export function childrenOf(pid: number): readonly number[] {
  return readProcess(pid, `task/${pid}/children`).split(' ').filter(Boolean).map(Number)
}

/** The gate's process as the host numbers it: down the chain from the holder's first. */
export function gateBelow(holder: number, confinement: SandboxPlan['confinement']): number | null {
  let pid: number | undefined = holder
  const depth = confinement === 'bubblewrap' ? 3 : 1
  for (let step = 0; step < depth && pid !== undefined; step++) pid = childrenOf(pid).at(-1)
  return pid ?? null
}

/** The kernel's unit of CPU time, for every program it tells. */
const tickMs = 10
const pageBytes = 4096

/** `tasks` are processes with their threads; `endedMs` is the CPU time of children that ended and were waited for. */
type ProcessUse = {
  readonly memoryMb: number
  readonly tasks: number
  readonly ownMs: number
  readonly endedMs: number
}

/** Of /proc/PID/stat what follows the name, which may hold anything. */
export function parseUse(stat: string): ProcessUse {
  const fields = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number)
  const field = (number: number) => fields[number - 3] ?? 0
  return {
    memoryMb: (field(24) * pageBytes) / 1024 / 1024 || 0,
    tasks: field(20) || 0,
    ownMs: (field(14) + field(15)) * tickMs || 0,
    endedMs: (field(16) + field(17)) * tickMs || 0,
  }
}

/** Of /proc/PID/stat; of one that is gone it has no parent. */
export function parseState(stat: string): { readonly state: string; readonly parent: number } {
  const [state = '', parent = ''] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return { state, parent: Number(parent) || 0 }
}
