import { useMemo, useRef, useState } from 'react'
import { useQueryClient } from '@tanstack/react-query'
import type { ChangedFile, Changeset, Verdict } from '../../shared/changeset.ts'
import { useClient } from '../client/context.tsx'
import { showError } from '../design/toasts.ts'
import { decidedOn, formerDecisions, keyOf, type FileKey, type FormerDecision } from './model.ts'

/** One thing the person decided, and what it takes to be as before. */
type Step = { readonly file: FileKey; readonly hunk: number; readonly before: readonly FormerDecision[] }

/** Decisions as the person makes them: shown at once, kept by the engine, taken back with `u`. */
export function useReview(id: string, changeset: Changeset) {
  const client = useClient()
  const queries = useQueryClient()
  const steps = useRef<Step[]>([])
  const [canUndo, setCanUndo] = useState(false)
  // One after the other: two answers that overtake each other would show an older state.
  const queue = useRef<Promise<unknown>>(Promise.resolve())

  const actions = useMemo(() => {
    const send = (file: ChangedFile, hunk: number | null, verdict: Verdict | null, comment?: string) => {
      queue.current = queue.current
        .then(() =>
          client.call('changeset.decide', {
            id,
            ...decidedOn(file, hunk),
            verdict,
            ...(comment === undefined ? {} : { comment }),
          }),
        )
        .then((next) => {
          queries.setQueryData(['changeset.get', { id }], next)
          return queries.invalidateQueries({ queryKey: ['dispatch.list'] })
        })
        .catch(showError)
    }
    const decide = (file: ChangedFile, hunk: number | null, verdict: Verdict | null, comment?: string) => {
      steps.current.push({ file: keyOf(file), hunk: hunk ?? 0, before: formerDecisions(file, hunk) })
      setCanUndo(true)
      send(file, hunk, verdict, comment)
    }
    const undo = (files: readonly ChangedFile[]) => {
      const step = steps.current.pop()
      setCanUndo(steps.current.length > 0)
      if (step === undefined) return null
      const file = files.find((other) => keyOf(other) === step.file)
      if (file === undefined) return null
      for (const { hunk, verdict } of step.before) send(file, hunk, verdict)
      return { file: step.file, hunk: step.hunk }
    }
    return { decide, undo }
  }, [client, id, queries])

  return { ...actions, canUndo, revision: changeset.revision }
}
