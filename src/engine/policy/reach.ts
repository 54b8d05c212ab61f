import type { EffectiveConfig } from '../../shared/config.ts'
import type { Contract, NetworkPolicy } from '../base/contract.ts'
import type { EscalationState } from '../base/escalation.ts'
import { networkAt } from './capabilities.ts'
import { current, opensEverything, opensGrantedOnly } from './step.ts'

/**
 * What the broker lets through as the records are. A person who says yes to `full` while it runs says more than its contract
 * did: then the level counts as if nobody had named outputs, less what is denied. Not for a child, which never has more
 * than its parent.
 */
export function networkNow(
  contract: Contract,
  state: Pick<EscalationState, 'start' | 'grants' | 'requests' | 'ancestors'>,
  config: EffectiveConfig,
): NetworkPolicy {
  const now = current(state)
  const isOpened = state.ancestors.length === 0 && opensEverything(state)
  const asked = isOpened ? { ...contract, outputs: { ...contract.outputs, declared: false } } : contract
  return networkAt(asked, now.level, now.hosts, config, opensGrantedOnly(state), now)
}
