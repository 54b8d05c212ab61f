import { OrangeryError } from '../../shared/errors.ts'
import { useAct } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { Dialog, DialogActions } from '../design/Dialog.tsx'
import { showToast } from '../design/toasts.ts'
import { Plain } from '../text/Plain.tsx'
import { placeOf } from './model.ts'
import { changesetWords } from '../dispatches/words.ts'

/** A path an apply or undo stopped at after a crash: it is neither what it was nor what it should become. */
export type Stopped = { readonly root: string; readonly path: string; readonly path_b64?: string | undefined }

/** What an error says a person has to settle; null for every other error. */
export function stoppedAt(error: unknown): Stopped | null {
  if (!(error instanceof OrangeryError) || error.code !== 'changeset.neither_old_nor_new') return null
  const details = error.details as Partial<Stopped> | undefined
  return details?.root === undefined || details.path === undefined
    ? null
    : placeOf({ root: details.root, path: details.path, path_b64: details.path_b64 })
}

/** Whose the path shall be. Then the apply, which a crash had cut off, goes on to its end. */
export function SettleDialog({
  id,
  stopped,
  onNext,
  onClose,
}: {
  id: string
  stopped: Stopped
  /** It stopped again, at another path. */
  onNext(stopped: Stopped): void
  onClose(): void
}) {
  const settle = useAct('changeset.settle', {
    onDone: ({ state, notes = [] }) => {
      showToast({
        tone: 'good',
        title: `Settled. ${changesetWords[state].label}.`,
        ...(notes.length === 0 ? {} : { detail: notes.join(' ') }),
      })
      onClose()
    },
    onFailed: (error) => {
      const next = stoppedAt(error)
      if (next === null) return false
      onNext(next)
      return true
    },
  })
  const choose = (choice: 'mine' | 'theirs') => settle.mutate({ id, ...placeOf(stopped), choice })
  return (
    <Dialog
      open
      onClose={onClose}
      title="Somebody wrote this file meanwhile"
      description="A crash cut an apply off. Since then the file has become neither what it was nor what it should become, so nothing more is written until you say whose it is."
      footer={
        <DialogActions cancel="Decide later" onCancel={onClose}>
          <Button disabled={settle.isPending} onClick={() => choose('theirs')}>
            Replace it with the agent&rsquo;s
          </Button>
          <Button look="primary" disabled={settle.isPending} onClick={() => choose('mine')}>
            Keep what is there
          </Button>
        </DialogActions>
      }
    >
      <p className="selectable rounded-lg bg-sunken px-3 py-2 font-mono text-small [overflow-wrap:anywhere] shadow-[inset_0_0_0_1px_var(--line)]">
        <Plain>{`${stopped.root}/${stopped.path}`}</Plain>
      </p>
      <p className="mt-3 text-small text-ink-soft">
        What is there now is kept, and comes back with undo, if you replace it. The other files are brought to
        their end either way.
      </p>
    </Dialog>
  )
}
