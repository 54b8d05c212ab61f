import { Lock } from 'lucide-react'
import { Checkbox as RadixCheckbox } from 'radix-ui'
import { Check } from 'lucide-react'
import { useEffect, useId, useState, type ReactNode } from 'react'
import type { Changeset } from '../../shared/changeset.ts'
import type { DispatchRow } from '../../shared/dispatch.ts'
import { useAct } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { Dialog } from '../design/Dialog.tsx'
import { showToast } from '../design/toasts.ts'
import { Counts } from '../dispatches/Badges.tsx'
import { titleOf } from '../dispatches/words.ts'
import { Plain } from '../text/Plain.tsx'
import { Conflicts, useConflicts } from './Conflicts.tsx'
import { tallyOf } from './model.ts'

const files = (count: number) => `${count} ${count === 1 ? 'file' : 'files'}`

function Choice({
  checked,
  onChange,
  children,
}: {
  checked: boolean
  onChange(checked: boolean): void
  children: ReactNode
}) {
  const id = useId()
  return (
    <div className="flex items-start gap-2.5">
      <RadixCheckbox.Root
        id={id}
        checked={checked}
        onCheckedChange={(next) => onChange(next === true)}
        className="mt-0.5 grid size-4 shrink-0 place-items-center rounded-sm bg-raised text-accent-on shadow-[0_0_0_1px_var(--line-strong)] data-[state=checked]:bg-accent data-[state=checked]:shadow-none"
      >
        <RadixCheckbox.Indicator>
          <Check size={12} strokeWidth={3} />
        </RadixCheckbox.Indicator>
      </RadixCheckbox.Root>
      <label htmlFor={id}>{children}</label>
    </div>
  )
}

function Roots({ changeset }: { changeset: Changeset }) {
  return (
    <ul className="selectable rounded-lg bg-sunken px-3 py-2 font-mono text-small shadow-[inset_0_0_0_1px_var(--line)]">
      {changeset.roots.map((root) => (
        <li key={root} className="[overflow-wrap:anywhere]">
          <Plain>{root}</Plain>
        </li>
      ))}
    </ul>
  )
}

type EndingProps = { open: boolean; changeset: Changeset; onClose(): void }

export function ApplyDialog({ open, changeset, onClose, onUndo }: EndingProps & { onUndo(): void }) {
  const tally = tallyOf(changeset)
  const nothingDecided = tally.approvedFiles === 0
  const [rest, setRest] = useState(nothingDecided)
  const [ignored, setIgnored] = useState(false)
  const [branch, setBranch] = useState<string | null>(null)
  const conflicts = useConflicts(changeset.id, open)
  const unsettled = conflicts.answer?.conflicts.length ?? 0
  useEffect(() => {
    if (open) setRest(nothingDecided)
    // oxlint-disable-next-line react/exhaustive-deps -- decided when the dialog opens, then the person's
  }, [open])
  const apply = useAct('changeset.apply', {
    onDone: ({ applied, skipped, commit, notes }) => {
      onClose()
      const said = [
        commit === undefined ? '' : `Commit ${commit.oid.slice(0, 9)} on ${commit.branch}.`,
        ...(notes ?? []),
        skipped.length === 0 ? '' : `${files(skipped.length)} stayed behind: ${skipped[0]?.why ?? ''}`,
      ].filter(Boolean)
      showToast({
        tone: 'good',
        title: `Applied ${files(applied.length)}`,
        detail: said.length === 0 ? undefined : said.join(' '),
        action: { label: 'Undo', run: onUndo },
      })
    },
  })
  const landing = tally.approvedFiles + (rest ? tally.openFiles : 0) + (rest && ignored ? tally.ignored : 0)
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title="Apply to your files"
      description={
        <>
          {files(landing)} will change in{' '}
          {changeset.roots.length === 1 ? 'this folder' : `${changeset.roots.length} folders`}. You can undo
          it as long as the files stay as they are.
        </>
      }
      footer={
        <>
          <Counts insertions={changeset.insertions} deletions={changeset.deletions} className="mr-auto" />
          <Button look="quiet" onClick={onClose}>
            Cancel
          </Button>
          <Button
            look="primary"
            disabled={
              landing === 0 ||
              apply.isPending ||
              conflicts.answer === null ||
              unsettled > 0 ||
              branch?.trim() === ''
            }
            {...(unsettled > 0 ? { tip: 'Settle the conflicts first.' } : {})}
            onClick={() =>
              apply.mutate({
                id: changeset.id,
                all: rest,
                include_ignored: rest && ignored,
                revision: changeset.revision,
                ...(branch === null ? {} : { commit: { branch: branch.trim() } }),
              })
            }
          >
            {apply.isPending ? 'Applying…' : `Apply ${files(landing)}`}
          </Button>
        </>
      }
    >
      <div className="space-y-4">
        <Roots changeset={changeset} />
        <div className="space-y-2.5">
          {!nothingDecided && (
            <p>
              {files(tally.approvedFiles)} approved in whole or part. What you rejected or sent to rework
              stays in review.
            </p>
          )}
          {tally.openFiles > 0 && (
            <Choice checked={rest} onChange={setRest}>
              {nothingDecided
                ? `Approve all ${files(tally.openFiles)} as they are shown`
                : `Also approve ${files(tally.openFiles)} I have not decided on`}
            </Choice>
          )}
          {tally.ignored > 0 && rest && (
            <Choice checked={ignored} onChange={setIgnored}>
              Include {files(tally.ignored)} that git ignores
            </Choice>
          )}
        </div>
        <div className="space-y-2">
          <Choice
            checked={branch !== null}
            onChange={(wanted) => setBranch(wanted ? 'orangery/review' : null)}
          >
            Also make one commit of it
          </Choice>
          {branch !== null && (
            <input
              aria-label="Branch"
              value={branch}
              onChange={(event) => setBranch(event.target.value)}
              placeholder="Branch"
              spellCheck={false}
              className="ml-6.5 h-7 w-64 rounded-md bg-raised px-2.5 font-mono text-small shadow-[0_0_0_1px_var(--line-strong)] outline-none focus:shadow-[0_0_0_1.5px_var(--accent-line)]"
            />
          )}
        </div>
        {conflicts.answer !== null && (
          <Conflicts
            id={changeset.id}
            answer={conflicts.answer}
            busy={conflicts.busy}
            onResolve={conflicts.resolve}
          />
        )}
        {tally.protectedOpen > 0 && (
          <p className="flex gap-2 rounded-lg bg-bad-wash px-3 py-2 text-small text-bad">
            <Lock size={14} className="mt-0.5 shrink-0" />
            {files(tally.protectedOpen)} can run code or change how your tools behave. They stay behind until
            you decide on each.
          </p>
        )}
      </div>
    </Dialog>
  )
}

export function AbandonDialog({ open, changeset, onClose }: EndingProps) {
  const abandon = useAct('changeset.abandon', {
    onDone: () => {
      onClose()
      showToast({ tone: 'plain', title: 'Abandoned', detail: 'Kept in the archive for 30 days.' })
    },
  })
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title="Abandon these changes"
      description={
        <>
          {files(changeset.files.length)} leave review and will not reach your folder. They are kept in the
          archive for 30 days, your own files stay as they are.
        </>
      }
      footer={
        <>
          <Counts insertions={changeset.insertions} deletions={changeset.deletions} className="mr-auto" />
          <Button look="outline" onClick={onClose}>
            Keep in review
          </Button>
          <Button
            look="danger"
            disabled={abandon.isPending}
            onClick={() => abandon.mutate({ id: changeset.id })}
          >
            Abandon
          </Button>
        </>
      }
    />
  )
}

export function SendBackDialog({ open, changeset, onClose }: EndingProps) {
  const [comment, setComment] = useState('')
  const reject = useAct('changeset.reject', {
    onDone: () => {
      onClose()
      setComment('')
      showToast({
        tone: 'plain',
        title: 'Sent back',
        detail: 'The changes stay in their workspace for the next turn.',
      })
    },
  })
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title="Send back to the agent"
      description="Your comment, and those on files and hunks, become its next prompt in the same workspace."
      footer={
        <>
          <Button look="quiet" onClick={onClose}>
            Cancel
          </Button>
          <Button
            look="primary"
            disabled={comment.trim() === '' || reject.isPending}
            {...(comment.trim() === '' ? { tip: 'Say what should change.' } : {})}
            onClick={() => reject.mutate({ id: changeset.id, comment: comment.trim() })}
          >
            Send back
          </Button>
        </>
      }
    >
      <textarea
        aria-label="Comment"
        rows={4}
        value={comment}
        onChange={(event) => setComment(event.target.value)}
        placeholder="What should it do differently?"
        className="w-full resize-y rounded-lg bg-raised px-3 py-2 shadow-[0_0_0_1px_var(--line-strong)] outline-none focus:shadow-[0_0_0_1.5px_var(--accent-line)]"
      />
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
          <Plain>{titleOf(row)}</Plain> ends at once, with everything it started. What it has written so far
          is kept for review.
        </>
      }
      footer={
        <>
          <Button look="outline" onClick={onClose}>
            Let it run
          </Button>
          <Button look="danger" disabled={kill.isPending} onClick={() => kill.mutate({ id: row.id })}>
            Stop
          </Button>
        </>
      }
    />
  )
}
