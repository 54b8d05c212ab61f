import { useState } from 'react'
import { isReadingPhase } from '../../shared/boundary.ts'
import type { DispatchRow } from '../../shared/dispatch.ts'
import type { BoundaryRequest } from '../../shared/escalation.ts'
import { Button } from '../design/Button.tsx'
import { OneOf } from '../design/Choice.tsx'
import { Dialog, DialogActions } from '../design/Dialog.tsx'
import { Segments } from '../design/Segments.tsx'
import { Plain } from '../text/Plain.tsx'
import { boundaryWords } from '../dispatches/words.ts'
import { dateTime } from '../text/time.ts'
import { spans, type Span } from './words.ts'

const reaches = [
  { value: 'all', label: 'Every folder' },
  { value: 'here', label: 'These roots only' },
] as const

type SaveDialogProps = {
  request: BoundaryRequest
  row: DispatchRow | undefined
  busy: boolean
  onSave(scope: 'project' | 'user', expires: string | null, roots: string[] | null): void
  onClose(): void
}

/** A yes that outlasts the run: where it is written, how long it counts, and what it will say. */
export function SaveDialog({ request, row, busy, onSave, onClose }: SaveDialogProps) {
  const [scope, setScope] = useState<'project' | 'user'>('project')
  const [openedAt] = useState(() => Date.now())
  const [span, setSpan] = useState<Span>('month')
  const [reach, setReach] = useState<'all' | 'here'>('all')
  const here = scope === 'user' && reach === 'here' ? [...(row?.roots ?? [])] : []
  const roots = here.length === 0 ? null : here
  const days = spans.find(({ value }) => value === span)?.days ?? null
  const expires = days === null ? null : new Date(openedAt + days * 86_400_000).toISOString()
  const written: readonly (readonly [string, string])[] = [
    ['Agent', row?.agent ?? 'this one'],
    ['Boundary', boundaryWords[request.to].label],
    ...(request.hosts.length === 0 ? [] : [['Hosts', request.hosts.join(', ')] as const]),
    ...(isReadingPhase(row?.phase ?? null) ? [['Phase', `${row?.phase} only`] as const] : []),
    ['Folders', roots?.join(', ') ?? (scope === 'user' ? 'every one' : 'those of the project')],
    ['Until', expires === null ? 'you revoke it' : dateTime(expires)],
  ]
  return (
    <Dialog
      open
      onClose={onClose}
      title="Allow and save"
      description="The same request is answered by this from now on, without asking you."
      footer={
        <DialogActions onCancel={onClose}>
          <Button look="primary" data-autofocus disabled={busy} onClick={() => onSave(scope, expires, roots)}>
            Allow and save
          </Button>
        </DialogActions>
      }
    >
      <div className="space-y-5">
        <OneOf
          label="Where it is saved"
          value={scope}
          options={[
            {
              value: 'project',
              label: 'In the project',
              detail: 'for you at once, for others once they trust its config',
            },
            { value: 'user', label: 'In your own config', detail: 'for this agent, wherever it runs' },
          ]}
          onChange={(next: 'project' | 'user') => setScope(next)}
        />
        {scope === 'user' && (
          <div className="flex flex-wrap items-center gap-3">
            <span className="font-medium">Counts in</span>
            <Segments
              label="Where it counts"
              value={reach}
              segments={reaches}
              onChange={(next: 'all' | 'here') => setReach(next)}
            />
          </div>
        )}
        <div className="flex flex-wrap items-center gap-3">
          <span className="font-medium">Counts for</span>
          <Segments
            label="How long it counts"
            value={span}
            segments={spans}
            onChange={(next: Span) => setSpan(next)}
          />
        </div>
        <dl className="selectable grid grid-cols-[5rem_1fr] gap-x-3 gap-y-1 rounded-lg bg-sunken px-3 py-2 text-small shadow-[inset_0_0_0_1px_var(--line)]">
          {written.map(([name, value]) => (
            <div key={name} className="contents">
              <dt className="text-ink-faint">{name}</dt>
              <dd className="min-w-0 [overflow-wrap:anywhere]">
                <Plain>{value}</Plain>
              </dd>
            </div>
          ))}
        </dl>
      </div>
    </Dialog>
  )
}
