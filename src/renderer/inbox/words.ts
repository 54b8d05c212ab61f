import { boundaryRank } from '../../shared/boundary.ts'
import type { BoundaryRequest, BoundaryState, RequestSource } from '../../shared/escalation.ts'
import { presetOf, someHostCovers } from '../../shared/hosts.ts'
import { sandboxSpecSchema } from '../../shared/spec.ts'
import type { Word } from '../dispatches/words.ts'

/** Who found that more is needed. A text that was printed is likely at most. */
export const sourceWords: Readonly<Record<RequestSource, string>> = {
  agent: 'The agent asks',
  broker: 'A connection was refused',
  driver: 'A write was refused',
  user: 'You asked',
  output: 'Likely a write was refused',
  config: 'Still beyond your config',
}

/** Whether it is a question at all: that an agent stays beyond the config is told, and nobody can answer it. */
export const isAnswerable = ({ source }: Pick<BoundaryRequest, 'source'>): boolean => source !== 'config'

/** What is said of each dispatch that has something in the inbox; a question outshines a notice. */
export function askingOf(requests: readonly BoundaryRequest[]): ReadonlyMap<string, Word> {
  const asking = new Map<string, Word>()
  for (const request of requests) {
    if (isAnswerable(request)) asking.set(request.dispatch, { label: 'Asks for more', tone: 'accent' })
    else if (!asking.has(request.dispatch))
      asking.set(request.dispatch, { label: 'Beyond config', tone: 'warn' })
  }
  return asking
}

/** How many other dispatches ask for the very same. */
export function countAlike(
  requests: readonly BoundaryRequest[],
  { dispatch, to, hosts }: BoundaryRequest,
): number {
  const same = requests.filter(
    (other) => other.dispatch !== dispatch && other.to === to && other.hosts.join() === hosts.join(),
  )
  return new Set(same.map((other) => other.dispatch)).size
}

/** How long a saved answer counts. */
export const spans = [
  { value: 'day', label: '1 day', days: 1 },
  { value: 'week', label: '7 days', days: 7 },
  { value: 'month', label: '30 days', days: 30 },
  { value: 'open', label: 'No end', days: null },
] as const
export type Span = (typeof spans)[number]['value']

/** More would make a menu that nobody reads; the command line takes any. */
const mostTakable = 8

/** Hosts that a menu offers to take back: those granted, and those its contract names and the boundary opens. */
export function takableHosts(
  { level, hosts, taken }: Pick<BoundaryState, 'level' | 'hosts' | 'taken'>,
  spec: unknown,
): readonly string[] {
  const { outputs, boundary } = sandboxSpecSchema.safeParse(spec).data ?? {}
  // Where no boundary was spelled out the named hosts are reached, in a read-only phase too.
  const isReached = boundary === undefined || boundaryRank(level ?? 'readonly') >= boundaryRank('network')
  const named = isReached ? [...(outputs?.allow ?? []), ...Object.keys(outputs?.pins ?? {})] : []
  const own = named.filter((rule) => presetOf(rule) === null && !rule.includes('/'))
  return [...new Set([...hosts, ...own])].filter((host) => !someHostCovers(taken, host)).slice(0, mostTakable)
}
