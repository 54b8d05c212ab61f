import { useVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useMemo, useRef } from 'react'
import type { DispatchRow } from '../../shared/dispatch.ts'
import { Plain } from '../text/Plain.tsx'
import { ago, duration } from '../text/time.ts'
import { useNow } from '../text/useNow.ts'
import { Counts, LevelChip, StatusDot, StatusWord } from './Badges.tsx'
import { railsOf, type Rails } from './rails.ts'
import { folderOf, groupOf, groupWords, titleOf, type ListEntry, type Word } from './words.ts'

const indent = 0.875

type DispatchListProps = {
  entries: readonly ListEntry[]
  /** What is said of those that need an answer. */
  asking: ReadonlyMap<string, Word>
  worktrees: ReadonlyMap<string, string>
  selected: string | null
  onSelect(id: string): void
}

/** Under the dot of the parent. */
const railAt = (depth: number) => ({ insetInlineStart: `${0.85 + (depth - 1) * indent}rem` })

function RailLines({ rails: { depth, past, opens } }: { rails: Rails }) {
  const isLast = !past.includes(depth)
  const line = 'absolute border-line-strong'
  return (
    <span aria-hidden className="contents" data-rails={[...past, ...(opens ? ['opens'] : [])].join(' ')}>
      {past.map((each) => (
        <span key={each} style={railAt(each)} className={`${line} top-0 -bottom-0.5 border-l`} />
      ))}
      {depth > 0 && (
        <span
          style={railAt(depth)}
          className={`${line} top-0 h-6.5 w-2.5 border-b ${isLast ? 'rounded-bl-md border-l' : ''}`}
        />
      )}
      {opens && <span style={railAt(depth + 1)} className={`${line} top-9 -bottom-0.5 border-l`} />}
    </span>
  )
}

function Row({
  row,
  folder,
  rails,
  selected,
  now,
  asks,
  onSelect,
}: {
  row: DispatchRow
  folder: string
  rails: Rails
  selected: boolean
  now: number
  asks: Word | undefined
  onSelect(id: string): void
}) {
  const running = groupOf(row) === 'running'
  const since = row.started_at ?? row.created_at
  return (
    <button
      type="button"
      data-dispatch={row.id}
      aria-current={selected ? 'page' : undefined}
      onClick={() => onSelect(row.id)}
      style={{ paddingInlineStart: `${0.625 + rails.depth * indent}rem` }}
      className="relative flex h-13 w-full items-center gap-2.5 rounded-lg pr-2.5 text-left outline-offset-[-2px] hover:bg-hover aria-[current=page]:bg-active"
    >
      <RailLines rails={rails} />
      <StatusDot row={row} asks={asks} />
      <span className="min-w-0 flex-1">
        <span className="flex items-baseline gap-2">
          <span className="min-w-0 flex-1 truncate font-medium text-ink">
            <Plain>{titleOf(row)}</Plain>
          </span>
          <span className="tabular shrink-0 text-micro text-ink-faint">
            {running
              ? duration(Math.max(0, Math.floor((now - Date.parse(since)) / 1000) * 1000))
              : ago(row.created_at, now)}
          </span>
        </span>
        <span className="mt-0.5 flex items-center gap-1.5 text-small text-ink-faint">
          <LevelChip level={row.level} boundary={row.boundary} />
          <StatusWord row={row} asks={asks} />
          <span className="min-w-0 flex-1 truncate before:mr-1.5 before:content-['·']">
            <Plain>{folder}</Plain>
          </span>
          {row.changeset !== null && (
            <Counts insertions={row.changeset.insertions} deletions={row.changeset.deletions} />
          )}
        </span>
      </span>
    </button>
  )
}

export function DispatchList({ entries, asking, worktrees, selected, onSelect }: DispatchListProps) {
  const scroller = useRef<HTMLDivElement>(null)
  const rails = useMemo(() => railsOf(entries), [entries])
  const running = entries.some((entry) => entry.kind === 'row' && groupOf(entry.row) === 'running')
  const now = useNow(running ? 1000 : 20_000)
  const virtualizer = useVirtualizer({
    count: entries.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => (entries[index]?.kind === 'group' ? 30 : 54),
    getItemKey: (index) => {
      const entry = entries[index]
      if (entry === undefined) return index
      return entry.kind === 'group' ? entry.group : entry.row.id
    },
    overscan: 12,
    // A row that is scrolled to keeps the heading above it, and does not touch the edge.
    scrollPaddingStart: 36,
    scrollPaddingEnd: 12,
  })
  const position = entries.findIndex((entry) => entry.kind === 'row' && entry.row.id === selected)
  useEffect(() => {
    if (position >= 0) virtualizer.scrollToIndex(position, { align: 'auto' })
  }, [position, virtualizer])

  return (
    <nav ref={scroller} aria-label="Dispatches" className="min-h-0 flex-1 overflow-y-auto px-2 pb-2">
      <div className="relative" style={{ height: virtualizer.getTotalSize() }}>
        {virtualizer.getVirtualItems().map((item) => {
          const entry = entries[item.index]
          if (entry === undefined) return null
          return (
            <div
              key={item.key}
              className="absolute inset-x-0 top-0"
              style={{ height: item.size, transform: `translateY(${item.start}px)` }}
            >
              {entry.kind === 'group' ? (
                <h2 className="flex h-full items-end gap-1.5 px-2.5 pb-1 text-micro font-medium text-ink-faint">
                  {groupWords[entry.group]}
                  <span className="tabular opacity-70">{entry.count}</span>
                </h2>
              ) : (
                <Row
                  row={entry.row}
                  folder={folderOf(entry.row, worktrees)}
                  rails={rails[item.index] ?? { depth: 0, past: [], opens: false }}
                  selected={entry.row.id === selected}
                  now={now}
                  asks={asking.get(entry.row.id)}
                  onSelect={onSelect}
                />
              )}
            </div>
          )
        })}
      </div>
    </nav>
  )
}
