import { isDeepStrictEqual } from 'node:util'
import { boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { BoundaryRequest } from '../../shared/escalation.ts'
import { someHostCovers } from '../../shared/hosts.ts'
import type { EscalationContext } from './context.ts'
import { capabilitiesOf } from './capabilities.ts'
import { atMost, isBeyondMaximum } from './maximum.ts'
import { scopeAt } from './scope.ts'

/** What the policy says to a wish that nobody's yes would give. */
export type Forbidden = { readonly says: string; readonly code: string; readonly hint: string }

type Wish = Pick<BoundaryRequest, 'to' | 'hosts'>

/**
 * Why nobody's yes would give a wish to one that has `now`: the maximum, files that cannot change while it runs, or a host
 * that is denied at the level it would have then. Null: a yes gives it.
 */
export function forbids(
  wish: Wish,
  now: BoundaryLevel,
  { config, denies = [], fixed = null }: Pick<EscalationContext, 'config' | 'denies' | 'fixed'>,
): Forbidden | null {
  const maximum = config.sandboxMaximumBoundary
  if (isBeyondMaximum(wish, maximum))
    return {
      says: atMost(maximum, wish),
      code: 'policy.boundary_too_wide',
      hint: 'Deny it, or change sandboxMaximumBoundary in your config.',
    }
  const then = boundaryRank(wish.to) > boundaryRank(now) ? wish.to : now
  if (fixed !== null && !isDeepStrictEqual(scopeAt(fixed, then), scopeAt(fixed, now))) {
    const instead = wish.hosts.length === 0 ? '' : `; for the host alone ask for ${now} and name it`
    return {
      says: `leaves its files as they are: ${fixed.workspace} cannot change while the agent runs${instead}`,
      code: 'sandbox.files_fixed',
      hint: 'Start it anew with the boundary it needs, or choose the overlay workspace.',
    }
  }
  const { deniedHosts } = capabilitiesOf(then, config).network
  const code = 'policy.host_denied'
  for (const host of wish.hosts) {
    if (someHostCovers(denies, host))
      return {
        says: `denies ${host}: outputs.deny of its contract`,
        code,
        hint: 'That holds for all of its run.',
      }
    if (someHostCovers(deniedHosts, host))
      return {
        says: `denies ${host}: deniedHosts of the config`,
        code,
        hint: 'Deny it, or take the host out of deniedHosts.',
      }
  }
  return null
}

export function refusalOf({ to, hosts }: Wish, { says, code, hint }: Forbidden): OrangeryError {
  const what = [`boundary ${to}`, ...hosts].join(', ')
  return new OrangeryError(code, `${what}: the policy ${says}`, { kind: 'refused', hint })
}
