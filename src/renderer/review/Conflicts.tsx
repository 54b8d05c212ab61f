import { GitMerge, TriangleAlert } from 'lucide-react'
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { choices, Conflicts as Answer } from '../../shared/changeset.ts'
import { useAct, useAnswer } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { PathText, Plain } from '../text/Plain.tsx'
import { ConflictEditor } from './ConflictEditor.tsx'
import { keyOf, placeOf } from './model.ts'

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
  answer: Answer
  busy: boolean
  onResolve(input: {
    id: string
    root: string
    path: string
    path_b64?: string
    choice: (typeof choices)[number]
    content_b64?: string
  }): void
}

/** Files both sides changed. A choice per file; nothing is written before all are made. */
export function Conflicts({ id, answer, busy, onResolve }: ConflictsProps) {
  const [editing, setEditing] = useState<Answer['conflicts'][number] | null>(null)
  return (
    <>
      {answer.conflicts.length > 0 && (
        <section
          className="overflow-hidden rounded-lg shadow-[0_0_0_1px_var(--bad-line)]"
          aria-label="Conflicts"
        >
          <h3 className="flex items-center gap-2 bg-bad-wash px-3 py-2 text-bad">
            <TriangleAlert size={14} />
            {answer.conflicts.length === 1
              ? '1 file changed on both sides'
              : `${answer.conflicts.length} files changed on both sides`}
          </h3>
          <ul className="max-h-52 divide-y divide-line overflow-y-auto">
            {answer.conflicts.map((conflict) => (
              <li key={keyOf(conflict)} className="space-y-1.5 px-3 py-2">
                <PathText path={conflict.path} className="font-mono text-small" />
                <p className="text-small text-ink-soft first-letter:uppercase">
                  <Plain>{conflict.why}</Plain>
                </p>
                <span className="flex flex-wrap gap-1.5">
                  {conflict.choices.map((choice) => (
                    <Button
                      key={choice}
                      size="small"
                      disabled={busy}
                      onClick={() =>
                        choice === 'edit'
                          ? setEditing(conflict)
                          : onResolve({ id, ...placeOf(conflict), choice })
                      }
                    >
                      {choiceWords[choice]}
                    </Button>
                  ))}
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
