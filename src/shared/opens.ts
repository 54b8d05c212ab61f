import { parseHostPattern } from './hosts.ts'
import { boundaryRank, type BoundaryLevel } from './boundary.ts'

/**
 * Whether a yes opens every host. One that names hosts says so only where it gives the level as well: at `full` already it
 * is a yes to those hosts. `from`: what holds when it is given; null: unknown. (escape: one-host-for-all)
 */
export const opensEveryHost = (
  from: BoundaryLevel | null,
  { to, hosts }: { readonly to: BoundaryLevel; readonly hosts: readonly string[] },
): boolean => to === 'full' && (hosts.length === 0 || from !== 'full')

/**
 * What wildcards stand for, in words. Where names are sold below two labels (co.uk) no rule tells, so that each is said to
 * reach whoever has one. (escape: wildcard-for-all)
 */
export function wildcardsInWords(hosts: readonly string[]): readonly string[] {
  const names = hosts.flatMap((host) => {
    const pattern = parseHostPattern(host)?.host
    return pattern?.startsWith('*.') === true ? [pattern.slice(2)] : []
  })
  return [...new Set(names)].map((name) =>
    name.includes('.')
      ? `every name below ${name}, whoever has it`
      : `the whole top-level domain ${name}, whoever has a name in it`,
  )
}

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
  if (request.hosts.length > 0) {
    list.push(`Reach ${request.hosts.join(', ')}`)
    list.push(...wildcardsInWords(request.hosts).map((words) => `That is ${words}`))
  }
  // Asked for at this level already where only granted hosts are open: what is open is not asked for at all.
  else if (request.to === 'network') list.push('Reach the hosts this level allows')
  if (opensEveryHost(from, request)) list.push('Everything its sandbox level permits, any host included')
  return list
}
