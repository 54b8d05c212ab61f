import { proxyPort } from '../../base/sandbox.ts'
import { proxyEnvironment } from '../../egress/index.ts'
import type { Job } from '../prepare/job.ts'

/**
 * Whether a relay stands from the start: wherever hosts are named, and for agents and phases. Elsewhere, for a plain
 * command that nothing is let out for, it starts when somebody comes to it.
 */
export function listensForHosts({ contract, card }: Pick<Job, 'contract' | 'card'>): boolean {
  const { outputs } = contract
  if (contract.level === 0) return false
  const isSaid = outputs.declared && outputs.cut !== true
  if (isSaid && outputs.mode === 'none') return false
  return isSaid || outputs.always.length > 0 || contract.phase !== null || card.id !== 'command'
}

/** The variables that lead the agent's programs to the relay; also where it lets nothing out, and says so. */
export const networkEnvironment = ({ contract }: Pick<Job, 'contract'>): Record<string, string> =>
  contract.level === 0 ? {} : proxyEnvironment(proxyPort)
