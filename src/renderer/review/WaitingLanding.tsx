import { Hourglass, TriangleAlert } from 'lucide-react'
import type { DispatchRow } from '../../shared/dispatch.ts'
import { useAct, useAnswer } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { useDispatches } from '../dispatches/useDispatches.ts'
import { titleOf } from '../dispatches/words.ts'
import { go } from '../shell/route.ts'
import { Plain } from '../text/Plain.tsx'

/** Names dispatches, each a way to its page. */
export function Named({ rows }: { rows: readonly DispatchRow[] }) {
  return rows.map((row, at) => (
    <span key={row.id}>
      {at > 0 && ', '}
      <button
        type="button"
        onClick={() => go({ page: 'dispatch', id: row.id, tab: 'output' })}
        className="rounded-sm font-medium underline decoration-current/40 underline-offset-2 hover:decoration-current"
      >
        <Plain>{titleOf(row)}</Plain>
      </button>
    </span>
  ))
}

/** A changeset that was let in and waits for its turn, or could not have it. */
export function WaitingLanding({ id }: { id: string }) {
  const landings = useAnswer('landing.list', {})
  const list = useDispatches()
  const cancel = useAct('landing.cancel')
  const landing = landings.data?.find((each) => each.id === id)
  if (landing === undefined) return null
  const rows = (list.data ?? []).filter((row) => landing.waits_for.includes(row.id))
  const failed = landing.problem !== null
  const done = landing.kind === 'undo' ? 'taken back' : 'applied'
  return (
    <div
      role="status"
      className={`flex shrink-0 items-center gap-2 border-b border-line px-5 py-1.5 text-small tight:px-4 ${failed ? 'bg-bad-wash text-bad' : 'bg-live-wash text-live'}`}
    >
      {failed ? (
        <TriangleAlert size={13} className="shrink-0" />
      ) : (
        <Hourglass size={13} className="shrink-0" />
      )}
      <span className="min-w-0 flex-1 [overflow-wrap:anywhere]">
        {failed ? (
          <>
            It was to be {done}, but: <Plain>{landing.problem ?? ''}</Plain>
          </>
        ) : rows.length === 0 ? (
          `It is ${done} as soon as nobody works on the same folder.`
        ) : (
          <>
            It is {done} when <Named rows={rows} /> {rows.length === 1 ? 'has' : 'have'} ended.
          </>
        )}
      </span>
      <Button size="small" disabled={cancel.isPending} onClick={() => cancel.mutate({ id })}>
        {failed ? 'Dismiss' : landing.kind === 'undo' ? 'Keep it' : 'Do not apply'}
      </Button>
    </div>
  )
}
