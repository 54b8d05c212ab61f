import { useMemo } from 'react'
import type { DiffScope } from '../../shared/changeset.ts'
import { useAnswer } from '../client/queries.ts'
import { useShownTheme } from '../design/theme.ts'
import { PathText } from '../text/Plain.tsx'
import { DiffView, type DiffLayout } from './DiffView.tsx'
import { splitPatch } from './patch.ts'

const nothingNew: Readonly<Record<DiffScope, string>> = {
  all: 'No changes.',
  review: 'Nothing has changed since your last decision.',
  turn: 'The last turn changed nothing.',
}

/** Only what is new since one looked: to read, not to decide on; decisions are about what would land. */
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
  const theme = useShownTheme()
  const diff = useAnswer('changeset.diff', { id, scope })
  const files = useMemo(
    () =>
      splitPatch(diff.data?.text ?? '').map(({ path, text }) => ({
        key: path,
        name: path,
        patch: text,
        collapsed: false,
      })),
    // oxlint-disable-next-line react/exhaustive-deps -- a new revision is a new text
    [diff.data, revision],
  )
  if (diff.data === undefined) return null
  if (files.length === 0)
    return <p className="grid h-full place-items-center text-ink-faint">{nothingNew[scope]}</p>
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

const nothing = () => null
const header = (path: string) => (
  <div className="flex h-10 items-center bg-sunken px-4 font-mono text-small text-ink">
    <PathText path={path} className="font-medium" />
  </div>
)
