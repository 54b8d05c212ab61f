import { Check, ChevronDown } from 'lucide-react'
import { useState } from 'react'
import { boundaryLevels, boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import type { DispatchRow } from '../../shared/dispatch.ts'
import { useClient } from '../client/context.tsx'
import { useAct } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { Dialog } from '../design/Dialog.tsx'
import { Menu, MenuItem } from '../design/Menu.tsx'
import { showError, showToast } from '../design/toasts.ts'
import { BoundaryBadge } from '../dispatches/Badges.tsx'
import { boundaryWords } from '../dispatches/words.ts'

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

function WidenDialog({ row, to, onClose }: { row: DispatchRow; to: BoundaryLevel; onClose(): void }) {
  const client = useClient()
  const [hosts, setHosts] = useState('')
  const [busy, setBusy] = useState(false)
  // One request like any other, and the person's own yes to it: the record shows both.
  const widen = async () => {
    setBusy(true)
    try {
      const request = await client.call('boundary.request', {
        id: row.id,
        to,
        hosts: hosts.split(/[\s,]+/).filter(Boolean),
        reason: 'asked for in the window',
      })
      if (request.status === 'open')
        await client.call('boundary.approve', { id: row.id, request: request.id })
      showToast({ tone: 'good', title: `Widened to ${boundaryWords[to].label}` })
      onClose()
    } catch (error) {
      showError(error)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Widen to ${boundaryWords[to].label}`}
      description={`${boundaryWords[to].detail} It holds at once, while it runs, and until it ends or you narrow it.`}
      footer={
        <>
          <Button look="quiet" onClick={onClose}>
            Cancel
          </Button>
          <Button look="primary" disabled={busy} onClick={() => void widen()}>
            Widen
          </Button>
        </>
      }
    >
      {boundaryRank(to) >= boundaryRank('network') && (
        <label className="block space-y-1.5">
          <span className="font-medium">Hosts it may reach</span>
          <input
            value={hosts}
            onChange={(event) => setHosts(event.target.value)}
            placeholder="registry.example.com:443 *.example.org"
            spellCheck={false}
            className="h-9 w-full rounded-lg bg-raised px-3 font-mono text-small shadow-[0_0_0_1px_var(--line-strong)] outline-none focus:shadow-[0_0_0_1.5px_var(--accent-line)]"
          />
        </label>
      )}
    </Dialog>
  )
}
