import { boundaryRank } from '../../shared/boundary.ts'
import type { EffectiveConfig } from '../../shared/config.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { BoundaryRequest } from '../../shared/escalation.ts'
import { someHostCovers } from '../../shared/hosts.ts'
import type { DispatchId } from '../../shared/ids.ts'
import type { Contract } from '../base/contract.ts'
import type { Ancestor, EscalationState } from '../base/escalation.ts'
import { networkNow } from './reach.ts'
import { current } from './step.ts'
import { isTaken } from './taken.ts'

/** What an ancestor goes by besides its grants. */
export type Bound = { readonly contract: Contract; readonly config: EffectiveConfig }

/** One that is not in it has nothing to give. */
export type Bounds = ReadonlyMap<DispatchId, Bound>

type Wish = Pick<BoundaryRequest, 'to' | 'hosts'>

function lackedBy(
  ancestor: Ancestor & Pick<EscalationState, 'ancestors'>,
  { to, hosts }: Wish,
  bounds: Bounds,
): string | null {
  const now = current(ancestor)
  if (boundaryRank(to) > boundaryRank(now.level)) return `boundary ${to}: its parent has ${now.level}`
  if (hosts.length === 0) return null
  const bound = bounds.get(ancestor.dispatch)
  if (bound === undefined) return `${hosts.join(', ')}: what its parent may reach is not known`
  const { mode, allow } = networkNow(bound.contract, ancestor, bound.config)
  const beyond = hosts.find((host) => isTaken(now, host) || (mode !== 'open' && !someHostCovers(allow, host)))
  return beyond === undefined ? null : `${beyond}: its parent may not reach it itself`
}

/**
 * Why a child cannot have what it wishes for: an ancestor lacks it. Null: none does. As when it is spawned, a child
 * never has more than its parent, whoever says yes. (escape: child-granted-host)
 */
export function beyondAncestors(
  { ancestors }: EscalationState,
  wish: Wish,
  bounds: Bounds,
): OrangeryError | null {
  for (const [index, ancestor] of ancestors.entries()) {
    const lack = lackedBy({ ...ancestor, ancestors: ancestors.slice(index + 1) }, wish, bounds)
    if (lack === null) continue
    return new OrangeryError('boundary.beyond_parent', lack, {
      kind: 'refused',
      hint: 'Widen the parent first.',
    })
  }
  return null
}
