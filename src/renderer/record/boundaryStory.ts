import type { BoundaryLevel } from '../../shared/boundary.ts'
import type { BoundaryGrant, BoundaryRequest, BoundaryState } from '../../shared/escalation.ts'
import { isAnswerable, sourceWords } from '../inbox/words.ts'

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
  closed: 'narrowed',
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

/** Whether somebody asked; else something was refused, and that was the asking. */
const isAsker = (source: BoundaryRequest['source']) => source === 'agent' || source === 'user'

function ofRequest(request: BoundaryRequest): Chapter[] {
  const { id, to, hosts, why, status, answer, by, source } = request
  if (status === 'open' || status === 'approved') return []
  const said = answer === null || answer.message === '' ? '' : `: ${answer.message}`
  const endings = {
    denied: `denied by ${answer?.by ?? 'nobody'}${said}`,
    expired: 'nobody answered in time',
    closed:
      answer !== null
        ? `closed by ${answer.by}${said}`
        : isAnswerable(request)
          ? 'over before anybody answered'
          : 'over now',
  }
  // Of one that was over early only the asking has a time; its deadline may not even have come.
  const at = answer?.at ?? (status === 'expired' ? request.expires_at : request.last_at)
  return [
    {
      key: `request ${id}`,
      at,
      from: null,
      to,
      changed: false,
      why: `${isAsker(source) ? `${by} asked` : sourceWords[source]}: ${why}`,
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
