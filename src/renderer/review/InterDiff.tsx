import { useAnswer } from '../client/queries.ts'
import { Dialog } from '../design/Dialog.tsx'
import { Reading } from '../design/Section.tsx'
import { Plain } from '../text/Plain.tsx'
import type { DiffLayout } from './DiffView.tsx'
import { ReadOnlyDiff } from './ScopedDiff.tsx'

type InterDiffProps = {
  id: string
  root: string
  path: string
  layout: DiffLayout
  onClose(): void
}

/** What became of a file after it was decided on: not what would land, but what is new in it. */
export function InterDiff({ id, root, path, layout, onClose }: InterDiffProps) {
  const review = useAnswer('changeset.diff', { id, root, path, scope: 'review' }, { fresh: true })
  // Whoever has gone on deciding since has nothing new by that measure; the turn's own changes are still there.
  const isEmpty = review.data !== undefined && review.data.text === ''
  const turn = useAnswer(
    'changeset.diff',
    { id, root, path, scope: 'turn' },
    { fresh: true, enabled: isEmpty },
  )
  const shown = isEmpty ? turn : review
  return (
    <Dialog
      open
      onClose={onClose}
      title={isEmpty ? 'What the last turn changed in it' : 'Changed since you last decided'}
      description={<Plain>{path}</Plain>}
      width="max-w-5xl"
    >
      <div className="-mx-5 -mb-4 h-[60vh] border-t border-line">
        {shown.error !== null && (
          <p className="selectable p-5 text-bad">
            <Plain>{shown.error.message}</Plain>
          </p>
        )}
        {shown.data === undefined && shown.error === null && (
          <div className="p-5">
            <Reading what="Comparing with what you decided on…" />
          </div>
        )}
        {shown.data !== undefined && (
          <ReadOnlyDiff text={shown.data.text} layout={layout} empty="Its text is as it was then." />
        )}
      </div>
    </Dialog>
  )
}
