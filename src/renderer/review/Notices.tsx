import { Flag, Layers2, TriangleAlert } from 'lucide-react'
import { useState } from 'react'
import type { Changeset } from '../../shared/changeset.ts'
import { useAct } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { go } from '../shell/route.ts'
import { Plain } from '../text/Plain.tsx'
import { SettleDialog, type Stopped } from './SettleDialog.tsx'

/** An apply that a crash cut off waits here for a person, before anybody tries to apply again. */
function StoppedNotice({ id, stopped }: { id: string; stopped: Stopped }) {
  const [settling, setSettling] = useState<Stopped | null>(null)
  return (
    <div
      role="alert"
      className="flex shrink-0 items-center gap-2 border-b border-line bg-bad-wash px-4 py-1.5 text-small text-bad"
    >
      <TriangleAlert size={13} className="shrink-0" />
      <span className="min-w-0 flex-1 [overflow-wrap:anywhere]">
        A crash cut an apply off, and it stopped at <Plain>{stopped.path}</Plain>: somebody wrote it
        meanwhile.
      </span>
      <Button size="small" onClick={() => setSettling(stopped)}>
        Settle…
      </Button>
      {settling !== null && (
        <SettleDialog id={id} stopped={settling} onNext={setSettling} onClose={() => setSettling(null)} />
      )}
    </div>
  )
}

function FlagNotice({ id, why }: { id: string; why: string }) {
  const escalate = useAct('changeset.escalate')
  return (
    <div className="flex shrink-0 items-center gap-2 border-b border-line bg-accent-wash px-4 py-1.5 text-small text-accent-ink">
      <Flag size={13} className="shrink-0" />
      <span className="selectable min-w-0 flex-1 [overflow-wrap:anywhere]">
        A person is asked to look: <Plain>{why}</Plain>
      </span>
      <Button size="small" disabled={escalate.isPending} onClick={() => escalate.mutate({ id, why: null })}>
        I have looked
      </Button>
    </div>
  )
}

/** What a reviewer should know before reading: someone asked for a person, or another agent works on the same files. */
export function Notices({ changeset }: { changeset: Changeset }) {
  const { id, escalated, stopped, overlaps = [] } = changeset
  return (
    <>
      {stopped != null ? (
        <StoppedNotice id={id} stopped={stopped} />
      ) : (
        escalated != null && <FlagNotice id={id} why={escalated} />
      )}
      {overlaps.map(({ id: other, paths }) => (
        <p
          key={other}
          className="flex shrink-0 items-center gap-2 border-b border-line bg-warn-wash px-4 py-1.5 text-small text-warn"
        >
          <Layers2 size={13} className="shrink-0" />
          <span className="min-w-0 flex-1 truncate">
            Another open changeset touches{' '}
            <Plain>
              {paths.length > 2
                ? `${paths.slice(0, 2).join(', ')} and ${paths.length - 2} more`
                : paths.join(', ')}
            </Plain>
          </span>
          <button
            type="button"
            onClick={() => go({ page: 'dispatch', id: other, tab: 'changes' })}
            className="shrink-0 rounded-sm hover:underline"
          >
            Show it
          </button>
        </p>
      ))}
    </>
  )
}
