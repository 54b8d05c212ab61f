import { useState } from 'react'
import type { Changeset } from '../../shared/changeset.ts'
import type { DispatchRow } from '../../shared/dispatch.ts'
import { useAct, useAnswer } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { Dialog, DialogActions } from '../design/Dialog.tsx'
import { showToast } from '../design/toasts.ts'
import { Counts } from '../dispatches/Badges.tsx'
import { titleOf } from '../dispatches/words.ts'
import { go } from '../shell/route.ts'
import { ExpansionLine } from '../spawn/ExpansionLine.tsx'
import { Plain } from '../text/Plain.tsx'

export const countFiles = (count: number): string => `${count} ${count === 1 ? 'file' : 'files'}`

export type EndingProps = { open: boolean; changeset: Changeset; onClose(): void }

export function AbandonDialog({ open, changeset, onClose }: EndingProps) {
  const abandon = useAct('changeset.abandon', {
    onDone: ({ notes }) => {
      onClose()
      const detail = ['Kept in the archive for 30 days.', ...notes].join(' ')
      showToast({ tone: 'plain', title: 'Abandoned', detail })
    },
  })
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title="Abandon these changes"
      description={
        <>
          {changeset.files.length === 1
            ? '1 file leaves review and will not reach your folder. It is kept in'
            : `${changeset.files.length} files leave review and will not reach your folder. They are kept in`}{' '}
          the archive for 30 days; your own files stay as they are.
        </>
      }
      footer={
        <DialogActions
          note={<Counts insertions={changeset.insertions} deletions={changeset.deletions} />}
          cancel="Keep in review"
          onCancel={onClose}
        >
          <Button
            look="danger"
            disabled={abandon.isPending}
            onClick={() => abandon.mutate({ id: changeset.id })}
          >
            Abandon
          </Button>
        </DialogActions>
      }
    />
  )
}

export function SendBackDialog({ open, changeset, onClose }: EndingProps) {
  const [comment, setComment] = useState('')
  const said = changeset.files.flatMap((file) => (file.comments ?? []).filter((each) => !each.outdated))
  const rework = useAct('changeset.rework', {
    onDone: ({ dispatch, turn }) => {
      onClose()
      setComment('')
      showToast({ tone: 'good', title: `Turn ${turn} has started` })
      go({ page: 'dispatch', id: dispatch, tab: 'output' })
    },
  })
  const nothingSaid = comment.trim() === '' && said.length === 0
  const outputs = useAnswer('changeset.rework_outputs', { id: changeset.id }, { enabled: open, fresh: true })
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title="Send back to the agent"
      description="What you say here and what was said on files and hunks becomes its next prompt, in the same workspace. What it leaves as it is stays decided."
      footer={
        <DialogActions note={nothingSaid ? 'Say what should change.' : undefined} onCancel={onClose}>
          <Button
            look="primary"
            disabled={nothingSaid || rework.isPending}
            onClick={() => rework.mutate({ id: changeset.id, comment: comment.trim() })}
          >
            {rework.isPending ? 'Starting…' : 'Send back'}
          </Button>
        </DialogActions>
      }
    >
      <div className="space-y-3">
        {said.length > 0 && (
          <ul className="selectable max-h-40 space-y-1 overflow-y-auto rounded-lg bg-sunken px-3 py-2 text-small shadow-[inset_0_0_0_1px_var(--line)]">
            {said.map((each) => (
              <li key={each.at + each.text} className="[overflow-wrap:anywhere]">
                <Plain>{each.text}</Plain>
              </li>
            ))}
          </ul>
        )}
        <textarea
          aria-label="Comment"
          rows={4}
          value={comment}
          onChange={(event) => setComment(event.target.value)}
          placeholder={said.length > 0 ? 'Anything else?' : 'What should it do differently?'}
          className="w-full resize-y rounded-lg bg-raised px-3 py-2 shadow-[0_0_0_1px_var(--line-strong)] outline-none focus:shadow-[0_0_0_1.5px_var(--accent-line)]"
        />
        {(outputs.data ?? []).length > 0 && (
          <ul aria-label="What it can reach" className="selectable space-y-0.5 text-small text-ink-soft">
            {outputs.data?.map((expansion) => (
              <ExpansionLine key={expansion.rule} {...expansion} />
            ))}
          </ul>
        )}
      </div>
    </Dialog>
  )
}

export function StopDialog({ open, row, onClose }: { open: boolean; row: DispatchRow; onClose(): void }) {
  const kill = useAct('dispatch.kill', { onDone: onClose })
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title="Stop it now"
      description={
        <>
          <span className="font-medium text-ink">
            <Plain>{titleOf(row)}</Plain>
          </span>{' '}
          ends at once, with everything it started. What it has written so far is kept for review.
        </>
      }
      footer={
        <DialogActions cancel="Let it run" onCancel={onClose}>
          <Button look="danger" disabled={kill.isPending} onClick={() => kill.mutate({ id: row.id })}>
            Stop
          </Button>
        </DialogActions>
      }
    />
  )
}
