import { useAnswer } from '../client/queries.ts'
import { Dialog } from '../design/Dialog.tsx'
import { Reading } from '../design/Section.tsx'
import { Plain } from '../text/Plain.tsx'
import type { DiffLayout } from './DiffView.tsx'
import type { placeOf } from './model.ts'
import { ReadOnlyDiff } from './ScopedDiff.tsx'

type InterDiffProps = {
  id: string
  place: ReturnType<typeof placeOf>
  layout: DiffLayout
  onClose(): void
}

/** What became of a file after it was decided on: not what would land, but what is new in it. */
export function InterDiff({ id, place, layout, onClose }: InterDiffProps) {
  const inter = useAnswer('changeset.diff', { id, ...place, inter: true }, { fresh: true })
  return (
    <Dialog
      open
      onClose={onClose}
      title="Changed since it was decided on"
      description={<Plain>{place.path}</Plain>}
      width="max-w-5xl"
    >
      <div className="-mx-5 -mb-4 h-[60vh] border-t border-line">
        {inter.error !== null && (
          <p className="selectable p-5 text-bad">
            <Plain>{inter.error.message}</Plain>
          </p>
        )}
        {inter.data === undefined && inter.error === null && (
          <div className="p-5">
            <Reading what="Comparing with what was decided on…" />
          </div>
        )}
        {inter.data !== undefined && (
          <ReadOnlyDiff text={inter.data.text} layout={layout} empty="Its text is as it was then." />
        )}
      </div>
    </Dialog>
  )
}
