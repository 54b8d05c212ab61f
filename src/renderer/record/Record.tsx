import { shellLine } from '../../shared/shellLine.ts'
import { useVirtualizer } from '@tanstack/react-virtual'
import { useMemo, useRef, useState } from 'react'
import { isTerminal, type DispatchDetail } from '../../shared/dispatch.ts'
import { useEvents } from '../client/useEvents.ts'
import type { Tone } from '../design/Badge.tsx'
import { Plain } from '../text/Plain.tsx'
import { clock, dateTime } from '../text/time.ts'
import type { LoggedEvent } from '../../shared/events.ts'
import { Boundaries } from './Boundaries.tsx'
import { Comparison } from './Comparison.tsx'
import { Network } from './Network.tsx'
import { Plan } from './Plan.tsx'
import { Proof } from './Proof.tsx'
import { timelineOf, type Entry } from './timeline.ts'

const longText = 240

/** A command may be a whole program; its beginning says which. */
function Long({ text }: { text: string }) {
  const [whole, setWhole] = useState(false)
  if (text.length <= longText || whole) return <Plain>{text}</Plain>
  return (
    <>
      <Plain>{`${text.slice(0, longText)}…`}</Plain>{' '}
      <button
        type="button"
        onClick={() => setWhole(true)}
        className="rounded-sm font-sans text-accent-ink hover:underline"
      >
        show all
      </button>
    </>
  )
}

function Facts({ detail }: { detail: DispatchDetail }) {
  const facts: readonly (readonly [string, string])[] = [
    ['Id', detail.id],
    ['Agent', detail.agent],
    ...(detail.command.length > 0 ? [['Command', shellLine(detail.command)] as const] : []),
    ...detail.roots.map((root, at) => [at === 0 ? 'Folder' : '', root] as const),
    ...(detail.phase === null ? [] : [['Phase', detail.phase] as const]),
    ...(detail.role === null ? [] : [['Role', detail.role] as const]),
    ...(detail.parent_id === null ? [] : [['Parent', detail.parent_id] as const]),
    ...(detail.recorded_status === undefined ? [] : [['Recorded as', detail.recorded_status] as const]),
    ['Asked for', dateTime(detail.created_at)],
    ...(detail.error === null ? [] : [['Error', detail.error] as const]),
  ]
  return (
    <dl className="selectable grid grid-cols-[7rem_1fr] gap-x-3 gap-y-1">
      {facts.map(([name, value]) => (
        <div key={name + value} className="contents">
          <dt className="text-ink-faint">{name}</dt>
          <dd className="min-w-0 font-mono text-small [overflow-wrap:anywhere]">
            <Long text={value} />
          </dd>
        </div>
      ))}
    </dl>
  )
}

const dots: Readonly<Record<Tone, string>> = {
  neutral: 'bg-line-strong',
  accent: 'bg-accent',
  good: 'bg-good',
  bad: 'bg-bad',
  warn: 'bg-warn',
  live: 'bg-live',
}

function TimelineEntry({ entry, last }: { entry: Entry; last: boolean }) {
  return (
    <div className="relative flex gap-3 pb-3">
      {!last && <span className="absolute top-4 bottom-0 left-[3.5px] w-px bg-line" />}
      <span className={`mt-1.5 size-2 shrink-0 rounded-full ${dots[entry.tone]}`} />
      <div className="selectable min-w-0 flex-1">
        <div className="flex items-baseline gap-2">
          <span className="min-w-0 flex-1 font-medium [overflow-wrap:anywhere]">
            <Plain>{entry.title}</Plain>
          </span>
          <time dateTime={entry.at} className="tabular shrink-0 text-micro text-ink-faint">
            {clock(entry.at)}
          </time>
        </div>
        {entry.detail !== null && entry.detail !== '' && (
          <p className="line-clamp-4 text-small text-ink-soft [overflow-wrap:anywhere]">
            <Plain>{entry.detail}</Plain>
          </p>
        )}
      </div>
    </div>
  )
}

function Timeline({ id, ended, events }: { id: string; ended: boolean; events: readonly LoggedEvent[] }) {
  const entries = useMemo(() => timelineOf(events), [events])
  const scroller = useRef<HTMLDivElement>(null)
  const virtualizer = useVirtualizer({
    count: entries.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 52,
    overscan: 10,
  })
  return (
    <section className="flex min-h-0 w-96 shrink-0 flex-col border-l border-line max-[72rem]:w-80 @max-[52rem]:max-h-[80vh] @max-[52rem]:w-full @max-[52rem]:border-t @max-[52rem]:border-l-0">
      <div className="flex flex-wrap items-center justify-between gap-x-3 px-5 pt-4 pb-2 tight:px-4">
        <h2 className="text-large font-semibold">Timeline</h2>
        {ended && entries.length > 0 && <Proof id={id} />}
      </div>
      <div ref={scroller} className="min-h-40 flex-1 overflow-y-auto px-5 pb-4 tight:px-4">
        <div className="relative" style={{ height: virtualizer.getTotalSize() }}>
          {virtualizer.getVirtualItems().map((item) => {
            const entry = entries[item.index]
            return entry === undefined ? null : (
              <div
                key={item.key}
                ref={virtualizer.measureElement}
                data-index={item.index}
                className="absolute inset-x-0 top-0"
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <TimelineEntry entry={entry} last={item.index === entries.length - 1} />
              </div>
            )
          })}
        </div>
        {entries.length === 0 && (
          // A log that is on its way is not empty.
          <p className="fade text-ink-faint [animation-delay:700ms] [animation-fill-mode:backwards]">
            Nothing has been logged.
          </p>
        )}
      </div>
    </section>
  )
}

export function Record({ detail }: { detail: DispatchDetail }) {
  const events = useEvents(detail.id)
  return (
    <div className="@container flex min-h-0 flex-1 flex-col">
      <div className="flex min-h-0 flex-1 @max-[52rem]:flex-col @max-[52rem]:overflow-y-auto">
        <div className="min-w-0 flex-1 space-y-6 overflow-y-auto p-5 tight:px-4 @max-[52rem]:overflow-visible">
          <Facts detail={detail} />
          <Comparison detail={detail} />
          <Network detail={detail} events={events} />
          <Boundaries id={detail.id} />
          <Plan events={events} effective={detail.sandbox_effective} />
        </div>
        <Timeline id={detail.id} ended={isTerminal(detail.status)} events={events} />
      </div>
    </div>
  )
}
