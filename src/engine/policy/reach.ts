import type { EffectiveConfig } from '../../shared/config.ts'
import type { Contract, NetworkPolicy } from '../base/contract.ts'
import type { EscalationState } from '../base/escalation.ts'
import { networkAt } from './capabilities.ts'
import { current, isShut, opensEverything, opensGrantedOnly } from './step.ts'

/** The contract less what a narrowing closed of it: below `network` only the card's hosts hold on. */
export function contractHeld<T extends Pick<Contract, 'outputs'>>(
  contract: T,
  state: Pick<EscalationState, 'start' | 'grants' | 'requests'>,
): T {
  if (!isShut(state)) return contract
  const { always, ofCard = always } = contract.outputs
  const shut = { always: ofCard, openAlways: false, pinsAlways: false }
  return { ...contract, outputs: { ...contract.outputs, ...shut } }
}

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
  const held = contractHeld(contract, state)
  const asked = isOpened ? { ...held, outputs: { ...held.outputs, declared: false } } : held
  return networkAt(asked, now.level, now.hosts, config, opensGrantedOnly(state), now)
}
