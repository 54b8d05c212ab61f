import { GitMerge, TriangleAlert } from 'lucide-react'
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { choices, Conflicts as Answer } from '../../shared/changeset.ts'
import { useAct, useAnswer } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { PathText, Plain } from '../text/Plain.tsx'
import { ConflictEditor } from './ConflictEditor.tsx'
import { keyOf, placeOf, rootNames } from './model.ts'

const choiceWords = {
  mine: 'Keep mine',
  theirs: "Take the agent's",
  both: 'Keep both',
  edit: 'Edit…',
} as const

/** What an apply would run into, asked whenever someone is about to: null while that is not known yet. */
export function useConflicts(id: string) {
  const queries = useQueryClient()
  const [since] = useState(() => Date.now())
  const answer = useAnswer('changeset.conflicts', { id }, { fresh: true })
  const resolve = useAct('changeset.resolve', {
    onDone: (next) => queries.setQueryData(['changeset.conflicts', { id }], next),
  })
  return {
    // What was found at an earlier look says nothing about the files as they are now.
    answer: answer.dataUpdatedAt < since ? null : (answer.data ?? null),
    error: answer.error,
    resolve: resolve.mutate,
    busy: resolve.isPending,
  }
}

type ConflictsProps = {
  id: string
  roots: readonly string[]
  answer: Answer
  busy: boolean
  onResolve(input: {
    id: string
    root: string
    path: string
    path_b64?: string
    choice: (typeof choices)[number] | null
    content_b64?: string
  }): void
}

type Row = Answer['conflicts'][number] & Partial<Pick<Answer['settled'][number], 'choice' | 'by'>>

/** Files both sides changed. A choice per file, which can be changed; nothing is written before all are made. */
export function Conflicts({ id, roots, answer, busy, onResolve }: ConflictsProps) {
  const [editing, setEditing] = useState<Row | null>(null)
  const names = rootNames(roots)
  const open = answer.conflicts.length
  // A row stays where it is when its choice is made.
  const rows: Row[] = [...answer.conflicts, ...answer.settled].toSorted((a, b) =>
    keyOf(a) < keyOf(b) ? -1 : 1,
  )
  return (
    <>
      {rows.length > 0 && (
        <section
          className={`overflow-hidden rounded-lg ${open > 0 ? 'shadow-[0_0_0_1px_var(--bad-line)]' : 'shadow-[0_0_0_1px_var(--line-strong)]'}`}
          aria-label="Conflicts"
        >
          <h3
            className={`flex items-center gap-2 px-3 py-2 ${open > 0 ? 'bg-bad-wash text-bad' : 'bg-sunken text-ink-soft'}`}
          >
            <TriangleAlert size={14} />
            {rows.length === 1
              ? '1 file changed on both sides'
              : `${rows.length} files changed on both sides`}
            {open < rows.length && `, ${rows.length - open} settled`}
          </h3>
          <ul className="divide-y divide-line">
            {rows.map((conflict) => (
              <li key={keyOf(conflict)} className="space-y-1.5 px-3 py-2">
                <PathText
                  path={(names.get(conflict.root) ?? '') + conflict.path}
                  className="font-mono text-small"
                />
                <p className="text-small text-ink-soft first-letter:uppercase">
                  <Plain>{conflict.why}</Plain>
                </p>
                <span className="flex flex-wrap gap-1.5">
                  {conflict.choices.map((choice) => (
                    <Button
                      key={choice}
                      size="small"
                      disabled={busy}
                      aria-pressed={conflict.choice === choice}
                      className="aria-pressed:bg-accent-wash aria-pressed:text-accent-ink"
                      onClick={() =>
                        choice === 'edit'
                          ? setEditing(conflict)
                          : onResolve({ id, ...placeOf(conflict), choice })
                      }
                    >
                      {choiceWords[choice]}
                    </Button>
                  ))}
                  {conflict.choice !== undefined && (
                    <Button
                      size="small"
                      look="quiet"
                      disabled={busy}
                      title={`Chosen by ${conflict.by}`}
                      onClick={() => onResolve({ id, ...placeOf(conflict), choice: null })}
                    >
                      Take back
                    </Button>
                  )}
                </span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {editing !== null && (
        <ConflictEditor
          id={id}
          place={placeOf(editing)}
          busy={busy}
          onSave={(content_b64) => {
            onResolve({ id, ...placeOf(editing), choice: 'edit', content_b64 })
            setEditing(null)
          }}
          onClose={() => setEditing(null)}
        />
      )}
      {answer.merged.length > 0 && (
        <p className="flex gap-2 text-small text-ink-soft">
          <GitMerge size={14} className="mt-0.5 shrink-0" />
          {answer.merged.length === 1 ? '1 file' : `${answer.merged.length} files`} changed in different
          places by you and the agent; both changes will be in it.
        </p>
      )}
    </>
  )
}
