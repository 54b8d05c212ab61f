import { boundaryRank, type BoundaryLevel } from './boundary.ts'

/** What a yes would open that is closed now, in words. `from`: what holds now; null: unknown. */
export function opens(
  from: BoundaryLevel | null,
  request: { readonly to: BoundaryLevel; readonly hosts: readonly string[] },
): readonly string[] {
  const rank = from === null ? -1 : boundaryRank(from)
  const to = boundaryRank(request.to)
  const list: string[] = []
  if (rank < boundaryRank('readwrite') && to >= boundaryRank('readwrite'))
    list.push('Write in its folders, into the changeset')
  // A host is opened at any level, and nobody grants one that he is not shown. (escape: unnamed-host)
  if (request.hosts.length > 0) list.push(`Reach ${request.hosts.join(', ')}`)
  else if (rank < boundaryRank('network') && request.to === 'network')
    list.push('Reach the hosts this level allows')
  if (rank < boundaryRank('full') && request.to === 'full')
    list.push('Everything its sandbox level permits, any host included')
  return list
}
