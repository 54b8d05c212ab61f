import {
  ArchiveRestore,
  Download,
  Ellipsis,
  MessageSquareReply,
  RotateCw,
  Square,
  Trash2,
  Undo2,
} from 'lucide-react'
import { useState } from 'react'
import { exportFormats, type Changeset, type ExportFormat } from '../../shared/changeset.ts'
import { isTerminal, type DispatchDetail, type DispatchRow } from '../../shared/dispatch.ts'
import { useClient } from '../client/context.tsx'
import { useAct } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { Menu, MenuItem } from '../design/Menu.tsx'
import { showError, showToast } from '../design/toasts.ts'
import { ApplyDialog } from '../review/ApplyDialog.tsx'
import { AbandonDialog, SendBackDialog, StopDialog } from '../review/Endings.tsx'
import { tallyOf } from '../review/model.ts'
import { SettleDialog, type Stopped } from '../review/SettleDialog.tsx'
import { useUndo } from '../review/useUndo.ts'
import { useKeys } from '../shell/useKeys.ts'
import { formOf } from '../spawn/again.ts'
import { useSpawn } from '../spawn/SpawnContext.ts'
import { download } from './download.ts'
import type { WorktreePlace } from './useWorktree.ts'

const exportWords: Readonly<Record<ExportFormat, string>> = {
  patch: 'Save as a patch',
  tar: 'Save the results (tar)',
  json: 'Save for a reviewing agent (JSON)',
}

type Ending = 'apply' | 'abandon' | 'back' | 'stop' | null

/** Why nothing can be applied now; null when something can. */
export function whyNotApply(row: DispatchRow, changeset: Changeset | undefined): string | null {
  if (row.changeset?.state !== 'review') return null
  if (!isTerminal(row.status)) return 'It is still running: it can be applied when it has ended.'
  if (changeset === undefined) return null
  const tally = tallyOf(changeset)
  if (tally.approvedFiles > 0 || tally.openFiles > 0) return null
  if (tally.protectedOpen > 0)
    return tally.protectedOpen === 1
      ? 'Nothing to apply yet: the file that is left is protected and needs a decision of its own.'
      : `Nothing to apply yet: the ${tally.protectedOpen} files that are left are protected. Decide on each of them.`
  if (tally.askedAgain > 0)
    return 'Nothing to apply yet: what is left was deleted after you rejected a change of it. Decide again.'
  if (tally.files === 0 && tally.ignored > 0) return null
  return 'Nothing to apply: nothing is approved.'
}

type ActionsProps = {
  row: DispatchDetail
  changeset: Changeset | undefined
  worktree: WorktreePlace | null
  commits: number
  inGit: boolean
}

/** What a person can do with a dispatch, by how it stands. */
export function Actions({ row, changeset, worktree, commits, inGit }: ActionsProps) {
  const [stopped, setStopped] = useState<Stopped | null>(null)
  const [ending, setEnding] = useState<Ending>(null)
  const close = () => setEnding(null)
  const openSpawn = useSpawn()
  const state = row.changeset?.state
  // A later turn works on the changeset of the first.
  const id = row.changeset?.id ?? row.id
  const running = !isTerminal(row.status)
  const inReview = state === 'review'
  const undo = useUndo(setStopped)
  const restore = useAct('changeset.restore', {
    onDone: () => showToast({ tone: 'good', title: 'Back in review' }),
  })
  const client = useClient()
  const [isSaving, setSaving] = useState(false)
  const save = (format: ExportFormat) => {
    setSaving(true)
    void download(client.open('changeset.export', { id, format }))
      .catch(showError)
      .finally(() => setSaving(false))
  }
  const canApply = inReview && changeset !== undefined && whyNotApply(row, changeset) === null
  useKeys(canApply ? { p: () => setEnding('apply') } : {})

  return (
    <div className="flex shrink-0 items-center gap-2">
      {(inReview || row.status !== 'preflight_failed') && (
        <Menu
          trigger={
            <Button
              look="quiet"
              icon={<Ellipsis size={16} />}
              aria-label="More actions"
              disabled={isSaving}
            />
          }
        >
          {inReview && (
            <MenuItem icon={<MessageSquareReply size={14} />} onSelect={() => setEnding('back')}>
              Send back to the agent…
            </MenuItem>
          )}
          <MenuItem icon={<RotateCw size={14} />} onSelect={() => openSpawn(formOf(row))}>
            Run it again…
          </MenuItem>
          {row.changeset !== null &&
            exportFormats.map((format) => (
              <MenuItem key={format} icon={<Download size={14} />} onSelect={() => save(format)}>
                {exportWords[format]}
              </MenuItem>
            ))}
        </Menu>
      )}
      {running && (
        <Button icon={<Square size={12} className="fill-current" />} onClick={() => setEnding('stop')}>
          Stop
        </Button>
      )}
      {state === 'applied' && (
        <Button
          icon={<Undo2 size={14} />}
          disabled={undo.isPending}
          onClick={() => undo.mutate({ id, when: 'idle' })}
        >
          {undo.isPending ? 'Undoing…' : 'Undo'}
        </Button>
      )}
      {(state === 'abandoned' || state === 'rejected') && (
        <Button
          icon={<ArchiveRestore size={14} />}
          disabled={restore.isPending}
          onClick={() => restore.mutate({ id })}
        >
          Back to review
        </Button>
      )}
      {inReview && (
        <>
          <Button icon={<Trash2 size={14} />} onClick={() => setEnding('abandon')}>
            <span className="tight:sr-only">Abandon…</span>
          </Button>
          <Button
            look="primary"
            disabled={!canApply}
            {...(canApply ? { tip: 'Let it into your files', keys: 'p' } : {})}
            onClick={() => setEnding('apply')}
          >
            Apply…
          </Button>
        </>
      )}
      {changeset !== undefined && inReview && ending === 'apply' && (
        <ApplyDialog
          changeset={changeset}
          inGit={inGit}
          worktree={worktree}
          commits={commits}
          onClose={close}
          onUndo={() => undo.mutate({ id, when: 'idle', last: true })}
          onStopped={(at) => {
            close()
            setStopped(at)
          }}
        />
      )}
      {changeset !== undefined && inReview && (
        <>
          <AbandonDialog open={ending === 'abandon'} changeset={changeset} onClose={close} />
          <SendBackDialog open={ending === 'back'} changeset={changeset} onClose={close} />
        </>
      )}
      {stopped !== null && (
        <SettleDialog id={id} stopped={stopped} onNext={setStopped} onClose={() => setStopped(null)} />
      )}
      <StopDialog open={ending === 'stop'} row={row} onClose={close} />
    </div>
  )
}
