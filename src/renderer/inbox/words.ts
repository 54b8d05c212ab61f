import { boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import type { BoundaryRequest, RequestSource } from '../../shared/escalation.ts'

/** Who found that more is needed. A text that was printed is likely at most. */
export const sourceWords: Readonly<Record<RequestSource, string>> = {
  agent: 'The agent asks',
  broker: 'A connection was refused',
  driver: 'A write was refused',
  user: 'You asked',
  output: 'Likely a write was refused',
}

/** What a yes would open that is closed now, in words. */
export function opens(
  from: BoundaryLevel | null,
  request: Pick<BoundaryRequest, 'to' | 'hosts'>,
): readonly string[] {
  const rank = from === null ? -1 : boundaryRank(from)
  const to = boundaryRank(request.to)
  const list: string[] = []
  if (rank < boundaryRank('readwrite') && to >= boundaryRank('readwrite'))
    list.push('Write in its folders, into the changeset')
  if (to >= boundaryRank('network')) {
    if (request.hosts.length > 0) list.push(`Reach ${request.hosts.join(', ')}`)
    else if (rank < boundaryRank('network')) list.push('Reach the hosts this level allows')
  }
  if (rank < boundaryRank('full') && to === boundaryRank('full'))
    list.push('Everything its sandbox level permits, any host included')
  return list
}
