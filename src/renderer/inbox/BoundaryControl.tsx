import { Check, ChevronDown, Undo2 } from 'lucide-react'
import { useState } from 'react'
import { boundaryLevels, boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import type { DispatchRow } from '../../shared/dispatch.ts'
import { useAct, useAnswer } from '../client/queries.ts'
import { Badge } from '../design/Badge.tsx'
import { Menu, MenuItem, MenuLine } from '../design/Menu.tsx'
import { Tip } from '../design/Tip.tsx'
import { showToast } from '../design/toasts.ts'
import { BoundaryBadge, BoundaryIcon } from '../dispatches/Badges.tsx'
import { boundaryWords } from '../dispatches/words.ts'
import { Plain } from '../text/Plain.tsx'
import { useTakeBack } from './useTakeBack.ts'
import { WidenDialog } from './WidenDialog.tsx'
import { takableHosts } from './words.ts'

const untilThen = (still: BoundaryLevel) =>
  `${boundaryWords[still].label} holds until the sandbox has followed: files that are open for writing take a while.`

/** A running agent's boundary, and the way to move it while it runs. */
export function BoundaryControl({ row, boundary }: { row: DispatchRow; boundary: BoundaryLevel }) {
  const [asked, setAsked] = useState<BoundaryLevel | null>(null)
  const state = useAnswer('boundary.show', { id: row.id }).data
  const spec = useAnswer('dispatch.get', { id: row.id }).data?.sandbox_spec
  const hosts = state?.hosts ?? []
  const takable = state === undefined ? [] : takableHosts(state, spec)
  const takeBack = useTakeBack(row.id)
  const narrow = useAct('boundary.narrow', {
    onDone: ({ level, in_effect: still }, { to }) => {
      const label = boundaryWords[level ?? 'readonly'].label
      if (still !== undefined)
        return showToast({ tone: 'plain', title: `Narrowing to ${label}`, detail: untilThen(still) })
      showToast({ tone: 'good', title: to === boundary ? 'Hosts taken back' : `Narrowed to ${label}` })
    },
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
            icon={<BoundaryIcon boundary={level} size={14} />}
            onSelect={() => {
              if (boundaryRank(level) < boundaryRank(boundary))
                narrow.mutate({ id: row.id, to: level, reason: 'narrowed in the window' })
              else if (level !== boundary || level === 'network') setAsked(level)
            }}
          >
            <span className="flex items-center justify-between gap-6">
              {boundaryWords[level].label}
              {level === boundary && <Check size={14} aria-label="now" className="text-accent-ink" />}
            </span>
          </MenuItem>
        ))}
        {takable.length > 0 && <MenuLine />}
        {takable.map((host) => (
          <MenuItem key={host} icon={<Undo2 size={14} />} onSelect={() => takeBack(host)}>
            <Plain>{`Take back ${host}`}</Plain>
          </MenuItem>
        ))}
        {hosts.length > 1 && (
          <MenuItem
            icon={<Undo2 size={14} />}
            onSelect={() =>
              narrow.mutate({ id: row.id, to: boundary, reason: 'hosts taken back in the window' })
            }
          >
            {`Take back ${hosts.length} granted hosts`}
          </MenuItem>
        )}
      </Menu>
      {state?.in_effect !== undefined && state.level !== null && (
        <Tip text={untilThen(state.in_effect)}>
          <span tabIndex={-1} className="inline-flex">
            <Badge tone="warn">{boundaryWords[state.level].label}, not yet</Badge>
          </span>
        </Tip>
      )}
      {asked !== null && <WidenDialog row={row} to={asked} onClose={() => setAsked(null)} />}
    </>
  )
}
