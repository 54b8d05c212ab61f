import type { EffectiveConfig } from '../../shared/config.ts'
import type { Contract, NetworkPolicy } from '../base/contract.ts'
import type { Ancestor } from '../base/escalation.ts'
import { networkAt } from './capabilities.ts'
import { current, opensGrantedOnly } from './step.ts'

/** What the broker lets through as the records are. */
export function networkNow(
  contract: Contract,
  state: Pick<Ancestor, 'start' | 'grants' | 'requests'>,
  config: EffectiveConfig,
): NetworkPolicy {
  const now = current(state)
  return networkAt(contract, now.level, now.hosts, config, opensGrantedOnly(state), now)
}
