import { ArrowRight } from 'lucide-react'
import { useAnswer } from '../client/queries.ts'
import { Badge } from '../design/Badge.tsx'
import { boundaryWords } from '../dispatches/words.ts'
import { Plain } from '../text/Plain.tsx'
import { clock } from '../text/time.ts'
import { boundaryStory, type Chapter } from './boundaryStory.ts'

function ChapterRow({ chapter }: { chapter: Chapter }) {
  const { at, from, to, changed, why, hosts, by } = chapter
  return (
    <li className="flex flex-wrap items-start gap-x-3 gap-y-1 px-3 py-2">
      <span className="flex shrink-0 items-center gap-1.5">
        {from !== null && from !== to && (
          <>
            <Badge>{boundaryWords[from].label}</Badge>
            <ArrowRight size={12} className="text-ink-faint" />
          </>
        )}
        <Badge tone={changed ? 'accent' : 'neutral'} className={changed ? '' : 'line-through'}>
          {boundaryWords[to].label}
        </Badge>
      </span>
      <div className="min-w-40 flex-1 [overflow-wrap:anywhere]">
        <p>
          <Plain>{why === '' ? 'no reason was given' : why}</Plain>
        </p>
        <p className="text-small text-ink-faint">
          <Plain>{[by, ...hosts].join(' · ')}</Plain>
        </p>
      </div>
      <time dateTime={at} className="tabular pt-0.5 text-micro text-ink-faint">
        {clock(at)}
      </time>
    </li>
  )
}

/** Every change of what it might do, and every request that came to nothing, with who and why. */
export function Boundaries({ id }: { id: string }) {
  const state = useAnswer('boundary.show', { id })
  const story = state.data === undefined ? [] : boundaryStory(state.data)
  if (story.length === 0) return null
  return (
    <section aria-label="Boundary">
      <h2 className="mb-2 text-large font-semibold">Boundary</h2>
      <ol className="selectable divide-y divide-line overflow-hidden rounded-lg shadow-[0_0_0_1px_var(--line)]">
        {story.map((chapter) => (
          <ChapterRow key={chapter.key} chapter={chapter} />
        ))}
      </ol>
    </section>
  )
}
