import { useMemo } from 'react'
import type { DiffScope } from '../../shared/changeset.ts'
import { useAnswer } from '../client/queries.ts'
import { Reading } from '../design/Section.tsx'
import { Trouble } from '../design/Trouble.tsx'
import { useShownTheme } from '../design/theme.ts'
import { PathText } from '../text/Plain.tsx'
import { DiffView, type DiffLayout } from './DiffView.tsx'
import { splitPatch } from './patch.ts'

const nothingNew: Readonly<Record<DiffScope, string>> = {
  all: 'No changes.',
  review: 'Nothing has changed since your last decision.',
  turn: 'The last turn changed nothing.',
}

/** A patch to read and not to decide on: decisions are about what would land. */
export function ReadOnlyDiff({ text, layout, empty }: { text: string; layout: DiffLayout; empty: string }) {
  const theme = useShownTheme()
  const files = useMemo(
    () =>
      splitPatch(text).map(({ path, text: patch }) => ({
        key: path,
        name: path,
        patch,
        collapsed: false,
      })),
    [text],
  )
  if (files.length === 0) return <p className="grid h-full place-items-center text-ink-faint">{empty}</p>
  return (
    <DiffView
      files={files}
      layout={layout}
      theme={theme}
      target={null}
      renderHeader={header}
      renderHunk={nothing}
    />
  )
}

/** Only what is new since one looked. */
export function ScopedDiff({
  id,
  scope,
  revision,
  layout,
}: {
  id: string
  scope: DiffScope
  revision: string
  layout: DiffLayout
}) {
  const diff = useAnswer('changeset.diff', { id, scope })
  if (diff.data === undefined)
    return (
      <div className="p-5">
        {diff.error === null ? (
          <Reading what="Reading the changes…" />
        ) : (
          <Trouble error={diff.error} onRetry={() => void diff.refetch()} />
        )}
      </div>
    )
  return <ReadOnlyDiff key={revision} text={diff.data.text} layout={layout} empty={nothingNew[scope]} />
}

const nothing = () => null
const header = (path: string) => (
  <div className="flex h-10 items-center bg-sunken px-4 font-mono text-small text-ink">
    <PathText path={path} className="font-medium" />
  </div>
)
