import type { BoundaryLevel } from '../../shared/boundary.ts'
import type { BoundaryGrant, BoundaryRequest, BoundaryState } from '../../shared/escalation.ts'

/** One thing that was said about a boundary: a change of it, or a request that came to nothing. */
export type Chapter = {
  readonly key: string
  readonly at: string
  readonly from: BoundaryLevel | null
  readonly to: BoundaryLevel
  readonly changed: boolean
  readonly why: string
  readonly hosts: readonly string[]
  /** Who, and in what way. */
  readonly by: string
}

const wayWords: Readonly<Record<BoundaryGrant['way'], string>> = {
  once: 'once',
  task: 'for the task',
  project: 'saved to the project',
  user: 'saved for the user',
  saved: 'by a saved approval',
  auto: 'by the policy',
  policy: 'by the policy',
  config: 'by the config',
  narrowed: 'narrowed',
  undone: 'it did not take',
}

const ofGrant = ({ at, from, to, why, hosts, by, way }: BoundaryGrant, index: number): Chapter => ({
  key: `grant ${index}`,
  at,
  from,
  to,
  changed: true,
  why,
  hosts,
  by: `${by}, ${wayWords[way]}`,
})

function ofRequest({ id, to, hosts, why, status, answer, by, expires_at: end }: BoundaryRequest): Chapter[] {
  if (status === 'open' || status === 'approved') return []
  const said = answer === null || answer.message === '' ? '' : `: ${answer.message}`
  const endings = {
    denied: `denied by ${answer?.by ?? 'nobody'}${said}`,
    expired: 'nobody answered in time',
    closed: 'made way, or it ended before an answer',
  }
  const at = answer?.at ?? end
  return [
    {
      key: `request ${id}`,
      at,
      from: null,
      to,
      changed: false,
      why: `${by} asked: ${why}`,
      hosts,
      by: endings[status],
    },
  ]
}

/** Everything that was decided about a boundary, in its order, with who and why. */
export const boundaryStory = ({
  history,
  requests,
}: Pick<BoundaryState, 'history' | 'requests'>): readonly Chapter[] =>
  [...history.map(ofGrant), ...requests.flatMap(ofRequest)].toSorted((a, b) => a.at.localeCompare(b.at))
