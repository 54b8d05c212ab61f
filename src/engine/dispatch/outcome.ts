import type { DispatchStatus } from '../../shared/dispatch.ts'
import type { SandboxEnd } from '../base/sandbox.ts'
import type { Job } from './job.ts'

export type Outcome = {
  readonly status: Exclude<DispatchStatus, 'starting' | 'running' | 'preflight_failed'>
  readonly exitCode: number | null
  readonly signal: NodeJS.Signals | null
  readonly error: string | null
}

export type Verdict = Pick<Outcome, 'status' | 'error'>

/** What became of it, and why, in words for whoever reads the record. */
export function judge(
  { exitCode, signal, lost, limits, likelyLimits, unstartable }: SandboxEnd,
  cancelledBy: string | null,
  { command, contract }: Job,
): Verdict {
  if (limits.includes('timeout'))
    return { status: 'timeout', error: `stopped after ${contract.limits.timeout_s} s, its time limit` }
  if (cancelledBy !== null) return { status: 'cancelled', error: `cancelled by ${cancelledBy}` }
  // By a likely one of the disk, too, it was ended by us.
  const reached = [...limits, ...likelyLimits.filter((limit) => limit === 'disk')]
  if (reached.length > 0 && exitCode !== 0)
    return { status: 'failed', error: `ended after it reached its ${reached.join(' and ')} limit` }
  if (lost !== null) return { status: 'interrupted', error: `the sandbox was cut off: ${lost}` }
  if (exitCode === 0) return { status: 'completed', error: null }
  if (unstartable) {
    const why = exitCode === 127 ? 'no such command in the sandbox' : 'it is not executable'
    return { status: 'failed', error: `${command[0]}: ${why}` }
  }
  return { status: 'failed', error: signal === null ? null : `the command was ended by ${signal}` }
}
