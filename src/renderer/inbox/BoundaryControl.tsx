import { Check, ChevronDown } from 'lucide-react'
import { useState } from 'react'
import { boundaryLevels, boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import type { DispatchRow } from '../../shared/dispatch.ts'
import { useAct } from '../client/queries.ts'
import { Menu, MenuItem } from '../design/Menu.tsx'
import { showToast } from '../design/toasts.ts'
import { BoundaryBadge } from '../dispatches/Badges.tsx'
import { boundaryWords } from '../dispatches/words.ts'
import { WidenDialog } from './WidenDialog.tsx'

/** A running agent's boundary, and the way to move it while it runs. */
export function BoundaryControl({ row, boundary }: { row: DispatchRow; boundary: BoundaryLevel }) {
  const [asked, setAsked] = useState<BoundaryLevel | null>(null)
  const narrow = useAct('boundary.narrow', {
    onDone: (state) =>
      showToast({ tone: 'good', title: `Narrowed to ${boundaryWords[state.level ?? 'readonly'].label}` }),
  })
  return (
    <>
      <Menu
        align="start"
        trigger={
          <button
            type="button"
            aria-label={`Boundary: ${boundaryWords[boundary].label}`}
            className="group inline-flex items-center rounded-md hover:bg-hover"
          >
            <BoundaryBadge boundary={boundary} />
            <ChevronDown size={12} className="mx-0.5 text-ink-faint" />
          </button>
        }
      >
        {boundaryLevels.map((level) => (
          <MenuItem
            key={level}
            icon={level === boundary ? <Check size={14} /> : undefined}
            onSelect={() => {
              if (boundaryRank(level) < boundaryRank(boundary))
                narrow.mutate({ id: row.id, to: level, reason: 'narrowed in the window' })
              else if (level !== boundary || level === 'network') setAsked(level)
            }}
          >
            <span className="flex flex-col py-1">{boundaryWords[level].label}</span>
          </MenuItem>
        ))}
      </Menu>
      {asked !== null && <WidenDialog row={row} to={asked} onClose={() => setAsked(null)} />}
    </>
  )
}
