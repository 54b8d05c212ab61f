import type { BoundaryLevel } from '../../shared/boundary.ts'
import { someHostCovers } from '../../shared/hosts.ts'
import type { NetworkPolicy, WritableScopes } from '../base/contract.ts'
import type { Need } from '../base/escalation.ts'
import { isInScope, levelForWriting, scopeAt } from './scope.ts'
import { isTaken } from './taken.ts'

export type Now = {
  readonly level: BoundaryLevel
  readonly network: NetworkPolicy
  /** What can be written at which level, as the agent sees it. */
  readonly scopes: WritableScopes
}

/** A host that is denied for good is not asked for either: nobody's yes would open it. */
const isLacking = (network: NetworkPolicy, host: string): boolean => {
  const { mode, allow, deny } = network
  if (someHostCovers(deny, host)) return false
  return isTaken(network, host) || (mode !== 'open' && !someHostCovers(allow, host))
}

/** What has to be asked for before a need is met; null where the boundary meets it as it is. */
export function wishOfNeed(
  need: Need,
  now: Now,
): { readonly to: BoundaryLevel; readonly hosts: readonly string[] } | null {
  if (need.kind === 'nothing') return null
  if (need.kind === 'write') {
    const scope = scopeAt(now.scopes, now.level)
    if (scope === null) return null
    if (need.paths.length > 0 && need.paths.every((path) => isInScope(scope, path))) return null
    // Where no level would let it write there, nobody's yes would help: it finds out by trying.
    const to = levelForWriting(now.scopes, now.level, need.paths)
    return to === null ? null : { to, hosts: [] }
  }
  const hosts = need.hosts.filter((host) => isLacking(now.network, host))
  if (hosts.length === 0) return null
  // As with a connection that was denied: who only reads is offered the host, and goes on only reading.
  return { to: now.level === 'readwrite' ? 'network' : now.level, hosts }
}
