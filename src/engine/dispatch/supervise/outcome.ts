import type { DispatchStatus } from '../../../shared/dispatch.ts'
import type { LimitName, SandboxEnd } from '../../base/sandbox.ts'
import type { Job } from '../prepare/job.ts'

export type Outcome = {
  readonly status: Exclude<DispatchStatus, 'starting' | 'running' | 'preflight_failed'>
  readonly exitCode: number | null
  readonly signal: NodeJS.Signals | null
  readonly error: string | null
}

export type Verdict = Pick<Outcome, 'status' | 'error'>

/** What is known of a limit that was likely reached. */
export const likelyDetail = (limit: LimitName): string =>
  limit === 'disk'
    ? 'more of the disk went than the disk limit allows, by it or by others on the same disk, while it kept files that nobody can look at'
    : `as many ran as the ${limit} limit allows: starting another fails`

/** What became of it, and why, in words for whoever reads the record. */
export function judge(
  { exitCode, signal, lost, limits, likelyLimits, unstartable }: SandboxEnd,
  cancelledBy: string | null,
  { command, contract }: Job,
  elsewhere: string | null = null,
): Verdict {
  if (limits.includes('timeout'))
    return { status: 'timeout', error: `stopped after ${contract.limits.timeout_s} s, its time limit` }
  if (cancelledBy !== null) return { status: 'cancelled', error: `cancelled by ${cancelledBy}` }
  if (limits.length > 0 && exitCode !== 0)
    return { status: 'failed', error: `ended after it reached its ${limits.join(' and ')} limit` }
  // By a likely one, too, it was ended by us.
  if (likelyLimits.includes('disk') && exitCode !== 0)
    return {
      status: 'failed',
      error: `ended since it likely reached its disk limit: ${likelyDetail('disk')}`,
    }
  if (lost !== null) return { status: 'interrupted', error: `the sandbox was cut off: ${lost}` }
  if (exitCode === 0) return { status: 'completed', error: null }
  if (unstartable) {
    const why = exitCode === 127 ? 'no such command in the sandbox' : 'it is not executable'
    return {
      status: 'failed',
      error: [command[0], why, ...(elsewhere === null ? [] : [elsewhere])].join(': '),
    }
  }
  return { status: 'failed', error: signal === null ? null : `the command was ended by ${signal}` }
}
