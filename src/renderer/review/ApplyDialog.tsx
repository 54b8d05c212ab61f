import { Hourglass, Lock, RotateCcw } from 'lucide-react'
import { useState } from 'react'
import type { Changeset } from '../../shared/changeset.ts'
import type { OrangeryError } from '../../shared/errors.ts'
import { useAct } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { Choice, OneOf } from '../design/Choice.tsx'
import { Dialog, DialogActions } from '../design/Dialog.tsx'
import { Reading } from '../design/Section.tsx'
import { landedToast, showToast } from '../design/toasts.ts'
import { useDispatches } from '../dispatches/useDispatches.ts'
import type { WorktreePlace } from '../dispatches/useWorktree.ts'
import { Plain } from '../text/Plain.tsx'
import { CommitFields, commitOf, type CommitDraft } from './CommitFields.tsx'
import { Conflicts, useConflicts } from './Conflicts.tsx'
import { countFiles } from './Endings.tsx'
import { inTheWay } from './inTheWay.ts'
import { rootNames, tallyOf } from './model.ts'
import { stoppedAt, type Stopped } from './SettleDialog.tsx'
import { Named } from './WaitingLanding.tsx'

function Destination({ changeset, worktree }: { changeset: Changeset; worktree: WorktreePlace | null }) {
  const lines =
    worktree === null ? changeset.roots : [`${worktree.name}, branch ${worktree.branch}`, worktree.repo]
  return (
    <ul className="selectable rounded-lg bg-sunken px-3 py-2 font-mono text-small shadow-[inset_0_0_0_1px_var(--line)]">
      {lines.map((line) => (
        <li key={line} className="[overflow-wrap:anywhere]">
          <Plain>{line}</Plain>
        </li>
      ))}
    </ul>
  )
}

/** What stays behind whatever is decided, and why: said before, not after. */
function NeverLanding({ changeset }: { changeset: Changeset }) {
  const names = rootNames(changeset.roots)
  const refused = changeset.files.filter((file) => file.refused !== null)
  if (refused.length === 0) return null
  return (
    <details className="rounded-lg bg-sunken px-3 py-2 text-small text-ink-soft">
      <summary>{countFiles(refused.length)} can never land</summary>
      <ul className="selectable mt-1 max-h-32 space-y-1 overflow-y-auto">
        {refused.map(({ root, path, refused: why }) => (
          <li key={`${root}/${path}`} className="[overflow-wrap:anywhere]">
            <span className="font-mono text-micro">
              <Plain>{(names.get(root) ?? '') + path}</Plain>
            </span>{' '}
            <Plain>{why ?? ''}</Plain>
          </li>
        ))}
      </ul>
    </details>
  )
}

const willApply = {
  tone: 'plain',
  title: 'It waits for its turn',
  detail: 'It is applied when nobody works on the same folder any more.',
} as const

type Way = 'merge' | 'squash' | 'apply'
const waysOf = (commits: number) =>
  [
    {
      value: 'merge',
      label: 'Merge',
      detail:
        commits === 0
          ? 'as a commit of its own'
          : commits === 1
            ? 'with the commit of the agent'
            : `with the ${commits} commits of the agent`,
    },
    { value: 'squash', label: 'Squash', detail: 'into one commit' },
    { value: 'apply', label: 'Apply only', detail: 'without a commit' },
  ] as const satisfies readonly { value: Way; label: string; detail: string }[]

type ApplyDialogProps = {
  changeset: Changeset
  /** Its first folder is in a repository, so that there can be a commit. */
  inGit: boolean
  worktree: WorktreePlace | null
  commits: number
  onClose(): void
  onUndo(): void
  /** A crash had cut an earlier apply off, and a person has to say how it goes on. */
  onStopped(stopped: Stopped): void
}

/** The one door between the agent and the user's files: what, where to, and what is in the way. */
export function ApplyDialog({
  changeset,
  inGit,
  worktree,
  commits,
  onClose,
  onUndo,
  onStopped,
}: ApplyDialogProps) {
  const onFailed = (error: OrangeryError) => {
    const stopped = stoppedAt(error)
    if (stopped === null) return false
    onStopped(stopped)
    return true
  }
  const tally = tallyOf(changeset)
  const nothingDecided = tally.approvedFiles === 0
  const [rest, setRest] = useState(nothingDecided)
  const [ignored, setIgnored] = useState(false)
  const [commit, setCommit] = useState<CommitDraft | null>(null)
  const [way, setWay] = useState<Way>('merge')
  const conflicts = useConflicts(changeset.id)
  const list = useDispatches()
  const others = inTheWay(list.data ?? [], changeset.roots)
  const unsettled = conflicts.answer?.conflicts.length ?? 0
  const apply = useAct('changeset.apply', {
    onFailed,
    onDone: ({ applied, skipped, commit: made, notes, waits_for: waits }) => {
      onClose()
      if (waits !== undefined) return showToast(willApply)
      const said = [
        made === undefined ? '' : `Commit ${made.oid.slice(0, 9)} on ${made.branch}.`,
        ...(notes ?? []),
        skipped.length === 0 ? '' : `${countFiles(skipped.length)} stayed behind: ${skipped[0]?.why ?? ''}`,
      ].filter(Boolean)
      showToast({
        tone: 'good',
        title: `Applied ${countFiles(applied.length)}`,
        detail: said.length === 0 ? undefined : said.join(' '),
        about: landedToast(changeset.id),
        action: { label: 'Undo', run: onUndo },
      })
    },
  })
  const land = useAct('agent.land', {
    onFailed,
    onDone: ({ applied, branch, commit: made, landed, skipped, waits_for: waits }) => {
      onClose()
      if (waits !== undefined) return showToast(willApply)
      showToast({
        tone: 'good',
        title: landed ? `Landed on ${branch}` : `${countFiles(applied.length)} landed on ${branch}`,
        detail: [
          made === null ? '' : `Commit ${made.slice(0, 9)}.`,
          landed ? 'The sandbox is in the archive.' : '',
          skipped.length === 0 ? '' : `${countFiles(skipped.length)} stayed behind.`,
        ]
          .filter(Boolean)
          .join(' '),
      })
    },
  })
  const busy = apply.isPending || land.isPending
  const selection = {
    all: rest,
    include_ignored: rest && ignored,
    // Whoever runs on a copy of the folder is in nobody's way; then it lands at once all the same.
    when: others.length > 0 ? ('idle' as const) : ('now' as const),
  }
  const start = () => {
    if (worktree !== null) land.mutate({ id: changeset.id, how: way, ...selection })
    else
      apply.mutate({
        id: changeset.id,
        ...selection,
        revision: changeset.revision,
        ...(commit === null ? {} : { commit: commitOf(commit) }),
      })
  }
  const landing = tally.approvedFiles + (rest ? tally.openFiles : 0) + (rest && ignored ? tally.ignored : 0)
  const whyNot =
    landing === 0
      ? 'Nothing is chosen.'
      : unsettled > 0
        ? 'Settle the conflicts first.'
        : commit !== null && commit.branch.trim() === ''
          ? 'Name the branch.'
          : null
  return (
    <Dialog
      open
      onClose={onClose}
      title={worktree === null ? 'Apply to your files' : 'Land in the worktree'}
      description={
        worktree === null ? (
          <>
            {countFiles(landing)} will change in{' '}
            {changeset.roots.length === 1 ? 'this folder' : `${changeset.roots.length} folders`}. You can undo
            it as long as the files stay as they are.
          </>
        ) : (
          <>{countFiles(landing)} will land on its branch. Your own checkout stays as it is.</>
        )
      }
      footer={
        <DialogActions note={whyNot} onCancel={onClose}>
          <Button
            look="primary"
            disabled={whyNot !== null || busy || conflicts.answer === null}
            onClick={start}
          >
            {busy
              ? 'Applying…'
              : `${worktree === null ? 'Apply' : 'Land'} ${countFiles(landing)}${others.length > 0 ? ' after that' : ''}`}
          </Button>
        </DialogActions>
      }
    >
      <div className="space-y-4">
        <Destination changeset={changeset} worktree={worktree} />
        <div className="space-y-2.5">
          {!nothingDecided && (
            <p>
              {countFiles(tally.approvedFiles)} approved in whole or part. What you rejected or sent to rework
              stays in review.
            </p>
          )}
          {tally.openFiles > 0 && (
            <Choice checked={rest} onChange={setRest}>
              {nothingDecided
                ? tally.openFiles === 1
                  ? 'Approve the file as it is shown'
                  : `Approve all ${countFiles(tally.openFiles)} as they are shown`
                : `Also approve ${countFiles(tally.openFiles)} I have not decided on`}
            </Choice>
          )}
          {tally.ignored > 0 && rest && (
            <Choice checked={ignored} onChange={setIgnored}>
              Include {countFiles(tally.ignored)} that git ignores
            </Choice>
          )}
        </div>
        {worktree === null ? (
          inGit && <CommitFields value={commit} commits={commits} onChange={setCommit} />
        ) : (
          <OneOf<Way> label="How it lands" value={way} options={waysOf(commits)} onChange={setWay} />
        )}
        {others.length > 0 && (
          <p className="flex gap-2 rounded-lg bg-live-wash px-3 py-2 text-small text-live" role="note">
            <Hourglass size={14} className="mt-0.5 shrink-0" />
            <span className="min-w-0 [overflow-wrap:anywhere]">
              <Named rows={others} /> {others.length === 1 ? 'is' : 'are'} running on this folder and would
              see half of it. It is applied when {others.length === 1 ? 'that has' : 'they have'} ended.
            </span>
          </p>
        )}
        {conflicts.error !== null && (
          <p className="selectable [overflow-wrap:anywhere] text-bad">
            <Plain>{conflicts.error.message}</Plain>
          </p>
        )}
        {conflicts.answer === null && conflicts.error === null && (
          <Reading what="Comparing with your files as they are now…" />
        )}
        {conflicts.answer !== null && (
          <Conflicts
            id={changeset.id}
            roots={changeset.roots}
            answer={conflicts.answer}
            busy={conflicts.busy}
            onResolve={conflicts.resolve}
          />
        )}
        {tally.protectedOpen > 0 && (
          <p className="flex gap-2 rounded-lg bg-bad-wash px-3 py-2 text-small text-bad">
            <Lock size={14} className="mt-0.5 shrink-0" />
            {tally.protectedOpen === 1
              ? '1 file can run code or change how your tools behave. It stays behind until you decide on it.'
              : `${tally.protectedOpen} files can run code or change how your tools behave. They stay behind until you decide on each.`}
          </p>
        )}
        {tally.askedAgain > 0 && (
          <p className="flex gap-2 rounded-lg bg-warn-wash px-3 py-2 text-small text-warn">
            <RotateCcw size={14} className="mt-0.5 shrink-0" />
            {countFiles(tally.askedAgain)} of which you rejected a change{' '}
            {tally.askedAgain === 1 ? 'was' : 'were'} deleted since.{' '}
            {tally.askedAgain === 1 ? 'It stays' : 'They stay'} until you decide again.
          </p>
        )}
        <NeverLanding changeset={changeset} />
      </div>
    </Dialog>
  )
}
