import { ArrowRight, CalendarClock, Check, ChevronDown, FolderCog, Repeat2, UserCog, X } from 'lucide-react'
import { useState } from 'react'
import { boundaryRank } from '../../shared/boundary.ts'
import type { DispatchRow } from '../../shared/dispatch.ts'
import type { BoundaryRequest } from '../../shared/escalation.ts'
import { opens } from '../../shared/opens.ts'
import { Badge } from '../design/Badge.tsx'
import { Button } from '../design/Button.tsx'
import { Menu, MenuItem } from '../design/Menu.tsx'
import { boundaryWords, folderOf, titleOf } from '../dispatches/words.ts'
import { go } from '../shell/route.ts'
import { Plain } from '../text/Plain.tsx'
import { duration } from '../text/time.ts'
import { useNow } from '../text/useNow.ts'
import { SaveDialog } from './SaveDialog.tsx'
import { useAnswers } from './useAnswers.ts'
import { isAnswerable, sourceWords } from './words.ts'

type RequestCardProps = {
  request: BoundaryRequest
  row: DispatchRow | undefined
  current?: boolean
  /** On the dispatch's own page its name is already said. */
  bare?: boolean
  /** How many other agents wait for the same. */
  alike?: number
  denying: boolean
  onDenying(denying: boolean): void
}

function Deadline({ at }: { at: string }) {
  const now = useNow(5_000)
  const left = Date.parse(at) - now
  if (left <= 0) return <span className="text-bad">expired</span>
  return <span title="Time left to answer">{`${duration(Math.ceil(left / 1000) * 1000)} left`}</span>
}

/** What is asked, by whom, why, and what it would open; then the answer. */
export function RequestCard({
  request,
  row,
  current = false,
  bare = false,
  alike = 0,
  denying,
  onDenying,
}: RequestCardProps) {
  const [message, setMessage] = useState('')
  const [isSaving, setSaving] = useState(false)
  const { allow, deny, busy } = useAnswers(request, row)
  const from = row?.boundary ?? null
  const canAnswer = isAnswerable(request)
  const opened = opens(from, request)
  // At `full` a host is asked for at the level that hosts are mostly opened at, and nothing goes down to it.
  const to = from !== null && canAnswer && boundaryRank(request.to) < boundaryRank(from) ? from : request.to
  // Only in the inbox do the keys mean this card.
  const keyed = (keys: string) => (current ? { keys } : {})
  return (
    <article
      data-request={request.id}
      aria-current={current}
      className={`scroll-my-4 rounded-lg bg-raised p-4 ${current ? 'shadow-[0_0_0_1.5px_var(--accent)]' : 'shadow-[0_0_0_1px_var(--line-strong)]'}`}
    >
      <div className="flex items-center gap-2">
        {from !== null && from !== to && (
          <>
            <Badge>{boundaryWords[from].label}</Badge>
            <ArrowRight size={13} className="text-ink-faint" />
          </>
        )}
        <Badge tone={!canAnswer ? 'warn' : from === to ? 'neutral' : 'accent'}>
          {boundaryWords[to].label}
        </Badge>
        <span className="min-w-0 flex-1 truncate text-ink-soft">{sourceWords[request.source]}</span>
        {request.count > 1 && (
          <span
            className="tabular inline-flex items-center gap-1 text-small text-ink-faint"
            title="Asked for again while it waited"
          >
            <Repeat2 size={13} />
            {request.count}
          </span>
        )}
        <span className="tabular text-small text-ink-faint">
          {canAnswer && <Deadline at={request.expires_at} />}
        </span>
      </div>
      <ul className="selectable space-y-0.5 text-large not-empty:mt-2.5">
        {opened.map((line) => (
          <li key={line} className="font-medium [overflow-wrap:anywhere]">
            <Plain>{line}</Plain>
          </li>
        ))}
      </ul>
      {request.source !== 'broker' && (
        <p
          className={`selectable line-clamp-6 [overflow-wrap:anywhere] text-ink-soft ${canAnswer ? '' : 'first-letter:uppercase'} ${opened.length === 0 ? 'mt-2.5' : 'mt-1'}`}
        >
          <Plain>{request.why}</Plain>
        </p>
      )}
      {alike > 0 && (
        <p className="mt-1 text-small text-ink-faint">
          {alike === 1 ? 'One other agent asks' : `${alike} other agents ask`} for the same. A saved answer
          reaches all that it covers.
        </p>
      )}
      {!bare && row !== undefined && (
        <button
          type="button"
          onClick={() => go({ page: 'dispatch', id: row.id, tab: null })}
          className="mt-2 block max-w-full truncate rounded-sm text-small text-ink-faint hover:text-ink"
        >
          <Plain>{`${titleOf(row)} · ${row.agent} · ${folderOf(row)}`}</Plain>
        </button>
      )}
      {denying ? (
        <form
          className="mt-3 flex gap-2"
          onSubmit={(event) => {
            event.preventDefault()
            deny(message.trim())
          }}
        >
          <input
            // oxlint-disable-next-line jsx-a11y/no-autofocus -- the person asked for this field by key or button
            autoFocus
            value={message}
            onChange={(event) => setMessage(event.target.value)}
            onKeyDown={(event) => event.key === 'Escape' && onDenying(false)}
            placeholder="Tell the agent why, or what to do instead"
            aria-label="Message to the agent"
            className="h-7 min-w-0 flex-1 rounded-md bg-pane px-2.5 shadow-[0_0_0_1px_var(--line-strong)] outline-none focus:shadow-[0_0_0_1.5px_var(--accent-line)]"
          />
          <Button type="submit" look="danger" disabled={busy}>
            Deny
          </Button>
          <Button look="quiet" onClick={() => onDenying(false)}>
            Cancel
          </Button>
        </form>
      ) : canAnswer ? (
        <div className="mt-3 flex flex-wrap items-center gap-2">
          <Button look="primary" icon={<Check size={14} />} disabled={busy} onClick={() => allow('once')}>
            Allow once
          </Button>
          <Button disabled={busy} onClick={() => allow('task')}>
            For this task
          </Button>
          <Menu
            align="start"
            trigger={
              <Button disabled={busy} aria-label="Save the answer">
                Save
                <ChevronDown size={13} className="-mr-0.5 text-ink-faint" />
              </Button>
            }
          >
            <MenuItem icon={<FolderCog size={14} />} {...keyed('s')} onSelect={() => allow('project')}>
              Allow and save to the project
            </MenuItem>
            <MenuItem icon={<UserCog size={14} />} {...keyed('u')} onSelect={() => allow('user')}>
              Allow and save for me, everywhere
            </MenuItem>
            <MenuItem icon={<CalendarClock size={14} />} onSelect={() => setSaving(true)}>
              Save until…
            </MenuItem>
          </Menu>
          <span className="flex-1" />
          <Button look="dangerQuiet" icon={<X size={14} />} disabled={busy} onClick={() => onDenying(true)}>
            Deny…
          </Button>
        </div>
      ) : (
        <p className="mt-3 text-small text-ink-faint">
          It is tried again until it takes. To have it sooner, stop the dispatch; or raise your maximum.
        </p>
      )}
      {isSaving && (
        <SaveDialog
          request={request}
          row={row}
          busy={busy}
          onSave={(scope, expires, roots) => {
            setSaving(false)
            allow(scope, expires, roots)
          }}
          onClose={() => setSaving(false)}
        />
      )}
    </article>
  )
}
