import { boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import type { EffectiveConfig } from '../../shared/config.ts'
import { narrowerBoundary } from './config/narrow.ts'

/** A host is network, whatever the level it is opened at. */
export const opensHosts = (maximum: BoundaryLevel): boolean =>
  boundaryRank(maximum) >= boundaryRank('network')

/**
 * Whether the config's maximum leaves no room for a wish. Below `network` nobody opens a host. (escape: host-below-maximum)
 */
export const isBeyondMaximum = (
  { to, hosts }: { readonly to: BoundaryLevel; readonly hosts: readonly string[] },
  maximum: BoundaryLevel,
): boolean => boundaryRank(to) > boundaryRank(maximum) || (hosts.length > 0 && !opensHosts(maximum))

/** The level that what holds has to go down to, without its granted hosts; null: it may stay as it is. */
export function heldByMaximum(
  now: { readonly level: BoundaryLevel; readonly hosts: readonly string[] },
  maximum: BoundaryLevel,
): BoundaryLevel | null {
  const isOver = isBeyondMaximum({ to: now.level, hosts: now.hosts }, maximum)
  return isOver ? narrowerBoundary(now.level, maximum) : null
}

export const atMost = (maximum: BoundaryLevel, { hosts }: { readonly hosts: readonly string[] }): string =>
  `allows ${maximum} at most${hosts.length > 0 && !opensHosts(maximum) ? ', and no host' : ''}`

export const withMaximum = (config: EffectiveConfig, maximum: BoundaryLevel): EffectiveConfig => ({
  ...config,
  sandboxMaximumBoundary: narrowerBoundary(config.sandboxMaximumBoundary, maximum),
})
