import { ArrowRight } from 'lucide-react'
import type { BoundaryGrant } from '../../shared/escalation.ts'
import { useAnswer } from '../client/queries.ts'
import { Badge } from '../design/Badge.tsx'
import { boundaryWords } from '../dispatches/words.ts'
import { Plain } from '../text/Plain.tsx'
import { clock } from '../text/time.ts'

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
  undone: 'taken back',
}

/** Every change of what it might do, with who and why. */
export function Boundaries({ id }: { id: string }) {
  const state = useAnswer('boundary.show', { id })
  const history = state.data?.history ?? []
  if (history.length < 2) return null
  return (
    <section>
      <h2 className="mb-2 text-large font-semibold">Boundary</h2>
      <ol className="selectable divide-y divide-line overflow-hidden rounded-lg shadow-[0_0_0_1px_var(--line)]">
        {history.map((grant) => (
          <li key={grant.at + grant.to} className="flex flex-wrap items-center gap-x-2 gap-y-1 px-3 py-2">
            {grant.from !== null && (
              <>
                <Badge>{boundaryWords[grant.from].label}</Badge>
                <ArrowRight size={12} className="text-ink-faint" />
              </>
            )}
            <Badge tone="accent">{boundaryWords[grant.to].label}</Badge>
            <span className="min-w-0 flex-1 [overflow-wrap:anywhere] text-ink-soft">
              <Plain>{[grant.why, ...grant.hosts].filter(Boolean).join(' · ')}</Plain>
            </span>
            <span className="text-small text-ink-faint">
              <Plain>{`${grant.by}, ${wayWords[grant.way]}`}</Plain>
            </span>
            <time dateTime={grant.at} className="tabular text-micro text-ink-faint">
              {clock(grant.at)}
            </time>
          </li>
        ))}
      </ol>
    </section>
  )
}
