import { useMemo, useState } from 'react'
import type { AgentCommit } from '../../shared/invocation.ts'
import { useAnswer } from '../client/queries.ts'
import { Reading } from '../design/Section.tsx'
import { Plain } from '../text/Plain.tsx'
import { ago } from '../text/time.ts'
import { useNow } from '../text/useNow.ts'
import type { DiffLayout } from './DiffView.tsx'
import { ReadOnlyDiff } from './ScopedDiff.tsx'

/** The commits the agent made, one by one: to read. What lands is decided on over all of it. */
export function Commits({
  id,
  commits,
  layout,
}: {
  id: string
  commits: readonly AgentCommit[]
  layout: DiffLayout
}) {
  const [picked, setPicked] = useState<string | null>(null)
  const now = useNow(60_000)
  const current = commits.find(({ commit }) => commit === picked) ?? commits[0]
  const patch = useAnswer(
    'agent.commit',
    { id, commit: current?.commit ?? '' },
    { enabled: current !== undefined },
  )
  const text = useMemo(() => patch.data?.text ?? '', [patch.data])
  return (
    <div className="flex h-full min-h-0 tight:flex-col">
      <ul
        aria-label="Commits"
        className="w-64 shrink-0 space-y-0.5 overflow-y-auto border-r border-line p-2 max-[64rem]:w-52 tight:max-h-40 tight:w-full tight:border-r-0 tight:border-b"
      >
        {commits.map(({ commit, subject, author, date, on_no_branch: isLeft, repository }) => (
          <li key={commit}>
            <button
              type="button"
              aria-current={commit === current?.commit}
              onClick={() => setPicked(commit)}
              className="w-full rounded-md px-2 py-1.5 text-left outline-offset-[-2px] hover:bg-hover aria-[current=true]:bg-active"
            >
              <span className="block truncate font-medium">
                <Plain>{subject}</Plain>
              </span>
              <span className="flex gap-2 text-small text-ink-faint">
                <span className="font-mono text-micro leading-[1.125rem]">{commit.slice(0, 9)}</span>
                <span className="min-w-0 flex-1 truncate">
                  {isLeft === true ? 'on no branch' : <Plain>{repository ?? author}</Plain>}
                </span>
                <span className="tabular shrink-0">{ago(date, now)}</span>
              </span>
            </button>
          </li>
        ))}
      </ul>
      <div className="min-h-0 min-w-0 flex-1">
        {patch.data === undefined ? (
          <div className="p-5">
            {patch.error === null ? (
              <Reading what="Reading the commit…" />
            ) : (
              <Plain>{patch.error.message}</Plain>
            )}
          </div>
        ) : (
          <ReadOnlyDiff text={text} layout={layout} empty="This commit changes nothing." />
        )}
      </div>
    </div>
  )
}
