import { Flag, Layers2 } from 'lucide-react'
import type { Changeset } from '../../shared/changeset.ts'
import { go } from '../shell/route.ts'
import { Plain } from '../text/Plain.tsx'

/** What a reviewer should know before reading: someone asked for a person, or another agent works on the same files. */
export function Notices({ changeset }: { changeset: Changeset }) {
  const overlaps = changeset.overlaps ?? []
  return (
    <>
      {changeset.escalated != null && (
        <p className="selectable flex shrink-0 items-start gap-2 border-b border-line bg-accent-wash px-4 py-1.5 text-small text-accent-ink">
          <Flag size={13} className="mt-0.5 shrink-0" />
          <span className="min-w-0 [overflow-wrap:anywhere]">
            A person is asked to look: <Plain>{changeset.escalated}</Plain>
          </span>
        </p>
      )}
      {overlaps.map(({ id, paths }) => (
        <p
          key={id}
          className="flex shrink-0 items-center gap-2 border-b border-line bg-warn-wash px-4 py-1.5 text-small text-warn"
        >
          <Layers2 size={13} className="shrink-0" />
          <span className="min-w-0 flex-1 truncate">
            Another open changeset touches{' '}
            <Plain>
              {paths.length > 2
                ? `${paths.slice(0, 2).join(', ')} and ${paths.length - 2} more`
                : paths.join(', ')}
            </Plain>
          </span>
          <button
            type="button"
            onClick={() => go({ page: 'dispatch', id, tab: 'changes' })}
            className="shrink-0 rounded-sm hover:underline"
          >
            Show it
          </button>
        </p>
      ))}
    </>
  )
}
