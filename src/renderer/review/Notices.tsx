import {
  ChevronDown,
  Flag,
  FolderCheck,
  GitCommitHorizontal,
  Layers2,
  TriangleAlert,
  Undo2,
} from 'lucide-react'
import { useState } from 'react'
import { isUnimported, type Changeset } from '../../shared/changeset.ts'
import { namesOf } from '../../shared/namesOf.ts'
import { useAct } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { Menu, MenuItem } from '../design/Menu.tsx'
import { go } from '../shell/route.ts'
import { Plain } from '../text/Plain.tsx'
import { SettleDialog, type Stopped } from './SettleDialog.tsx'
import { useUndo } from './useUndo.ts'

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

/** What is listed is what is left: part of it is in the user's files already, and this is the way back. */
function LandedNotice({ id, applies }: { id: string; applies: number }) {
  const [stopped, setStopped] = useState<Stopped | null>(null)
  const undo = useUndo(setStopped)
  const takeBack = (last: boolean) => undo.mutate({ id, when: 'idle', last })
  const label = undo.isPending ? 'Undoing…' : 'Undo what landed'
  const look = { size: 'small', icon: <Undo2 size={12} />, disabled: undo.isPending } as const
  return (
    <div
      role="status"
      className="flex shrink-0 items-center gap-2 border-b border-line bg-good-wash px-4 py-1.5 text-small text-good"
    >
      <FolderCheck size={13} className="shrink-0" />
      <span className="min-w-0 flex-1 [overflow-wrap:anywhere]">
        Part of it has landed in your files{applies === 1 ? '' : `, in ${applies} applies`}. What is left is
        listed here.
      </span>
      {applies === 1 ? (
        <Button {...look} onClick={() => takeBack(false)}>
          {label}
        </Button>
      ) : (
        <Menu
          trigger={
            <Button {...look}>
              {label}
              <ChevronDown size={12} />
            </Button>
          }
        >
          <MenuItem icon={<Undo2 size={14} />} onSelect={() => takeBack(true)}>
            Undo the last apply
          </MenuItem>
          <MenuItem icon={<Undo2 size={14} />} onSelect={() => takeBack(false)}>
            Undo all {applies} applies
          </MenuItem>
        </Menu>
      )}
      {stopped !== null && (
        <SettleDialog id={id} stopped={stopped} onNext={setStopped} onClose={() => setStopped(null)} />
      )}
    </div>
  )
}

/** What a reviewer should know before reading: someone asked for a person, commits are missing, or another agent works on the same files. */
export function Notices({ changeset }: { changeset: Changeset }) {
  const { id, state, escalated, stopped, dropped, landed = [], overlaps = [] } = changeset
  const isPartly = (state === 'review' || state === 'rejected') && landed.length > 0
  return (
    <>
      {stopped != null ? (
        <StoppedNotice id={id} stopped={stopped} />
      ) : (
        escalated != null && <FlagNotice id={id} why={escalated} />
      )}
      {isPartly && <LandedNotice id={id} applies={landed.length} />}
      {dropped.filter(isUnimported).map(({ root, path, why }) => (
        <p
          key={`${root}/${path}: ${why}`}
          className="flex shrink-0 items-center gap-2 border-b border-line bg-warn-wash px-4 py-1.5 text-small text-warn"
        >
          <GitCommitHorizontal size={13} className="shrink-0" />
          <span className="selectable min-w-0 flex-1 [overflow-wrap:anywhere]">
            Commits of the agent are missing here: <Plain>{`${path}: ${why}`}</Plain>
          </span>
        </p>
      ))}
      {overlaps.map(({ id: other, paths, more }) => (
        <p
          key={other}
          className="flex shrink-0 items-center gap-2 border-b border-line bg-warn-wash px-4 py-1.5 text-small text-warn"
        >
          <Layers2 size={13} className="shrink-0" />
          <span className="min-w-0 flex-1 truncate">
            Another open changeset touches <Plain>{namesOf(paths, 2, more)}</Plain>
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
