import { CircleHelp, Cpu, Inbox, Monitor, Moon, Plus, Search, Sun } from 'lucide-react'
import { useDeferredValue, useMemo, useRef, useState } from 'react'
import type { BoundaryRequest } from '../../shared/escalation.ts'
import type { DispatchRow } from '../../shared/dispatch.ts'
import { useConnectionState } from '../client/context.tsx'
import { useAnswer } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { Keys } from '../design/Keys.tsx'
import { Mark } from '../design/Mark.tsx'
import { chooseTheme, useThemeChoice, type ThemeChoice } from '../design/theme.ts'
import { DispatchList } from '../dispatches/DispatchList.tsx'
import { arrange, isWorktreePath, worktreeNames } from '../dispatches/words.ts'
import { askingOf, isAnswerable } from '../inbox/words.ts'
import { go, useRoute } from './route.ts'
import { useKeys } from './useKeys.ts'

const themes: Readonly<Record<ThemeChoice, { next: ThemeChoice; label: string; icon: typeof Sun }>> = {
  system: { next: 'light', label: 'Theme: as the system', icon: Monitor },
  light: { next: 'dark', label: 'Theme: light', icon: Sun },
  dark: { next: 'system', label: 'Theme: dark', icon: Moon },
}

function ThemeButton() {
  const choice = useThemeChoice()
  const { next, label, icon: Icon } = themes[choice]
  return (
    <Button
      look="quiet"
      size="small"
      tip={label}
      aria-label={label}
      icon={<Icon size={14} />}
      onClick={() => chooseTheme(next)}
    />
  )
}

function HostLine() {
  const isLost = useConnectionState().status === 'lost'
  const doctor = useAnswer('host.doctor', {})
  const sandboxes = doctor.data?.levels.filter((level) => level.level > 0 && level.available) ?? []
  const route = useRoute()
  const ready = sandboxes.length > 0
  const orphans = doctor.data?.orphans?.length ?? 0
  return (
    <>
      <button
        type="button"
        aria-current={route.page === 'host' ? 'page' : undefined}
        onClick={() => go({ page: 'host', tab: 'isolation' })}
        className="flex h-7 min-w-0 flex-1 items-center gap-2 rounded-md px-2 text-small text-ink-soft hover:bg-hover aria-[current=page]:bg-active"
      >
        <Cpu
          size={14}
          className={doctor.data !== undefined && !ready && !isLost ? 'text-bad' : 'text-ink-faint'}
        />
        <span className="truncate">
          {isLost
            ? 'Not connected'
            : doctor.data === undefined
              ? 'This computer'
              : ready
                ? 'Sandbox ready'
                : 'No sandbox available'}
        </span>
      </button>
      {orphans > 0 && (
        <Button
          look="quiet"
          size="small"
          tip={orphans === 1 ? 'One thing belongs to nothing' : `${orphans} things belong to nothing`}
          aria-label="Orphans"
          icon={<CircleHelp size={14} className="text-warn" />}
          onClick={() => go({ page: 'host', tab: 'workspaces' })}
        />
      )}
    </>
  )
}

type SidebarProps = {
  rows: readonly DispatchRow[]
  requests: readonly BoundaryRequest[]
  onSpawn(): void
  className?: string
}

export function Sidebar({ rows, requests, onSpawn, className = '' }: SidebarProps) {
  const route = useRoute()
  const search = useRef<HTMLInputElement>(null)
  const [text, setText] = useState('')
  const wanted = useDeferredValue(text)
  const asking = useMemo(() => askingOf(requests), [requests])
  const entries = useMemo(() => arrange(rows, wanted, asking), [rows, wanted, asking])
  const inTrees = rows.some((row) => isWorktreePath(row.roots[0]))
  const trees = useAnswer('worktree.list', {}, { enabled: inTrees })
  const worktrees = useMemo(() => worktreeNames(trees.data ?? []), [trees.data])
  const selected = route.page === 'dispatch' ? route.id : null

  const ids = entries.flatMap((entry) => (entry.kind === 'row' ? [entry.row.id] : []))
  const step = (by: number) => {
    const at = ids.findIndex((id) => id === selected)
    const next = ids[Math.max(0, Math.min(ids.length - 1, at + by))]
    if (next !== undefined) go({ page: 'dispatch', id: next, tab: null })
  }
  const hears = useKeys({
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    '/': () => search.current?.focus(),
  })

  return (
    <aside className={`flex min-h-0 w-72 shrink-0 flex-col ${className}`}>
      <div className="flex h-12 shrink-0 items-center gap-2 px-4 [-webkit-app-region:drag]">
        <Mark size={20} />
        <span className="text-large font-semibold tracking-tight">Orangery</span>
        <span className="flex-1" />
        <Button
          look="primary"
          size="small"
          icon={<Plus size={14} />}
          tip="New dispatch"
          keys="n"
          aria-label="New dispatch"
          onClick={onSpawn}
          className="[-webkit-app-region:no-drag]"
        >
          New
        </Button>
      </div>
      <div className="shrink-0 px-3 pb-1">
        <label className="flex h-8 items-center gap-2 rounded-lg bg-hover px-2.5 focus-within:bg-raised focus-within:shadow-[0_0_0_1px_var(--accent-line)]">
          <Search size={14} className="shrink-0 text-ink-faint" />
          <input
            ref={search}
            value={text}
            onChange={(event) => setText(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === 'Escape') {
                setText('')
                event.currentTarget.blur()
              }
              if (event.key === 'Enter' && ids[0] !== undefined)
                go({ page: 'dispatch', id: ids[0], tab: null })
            }}
            placeholder="Search dispatches"
            aria-label="Search dispatches"
            spellCheck={false}
            className="min-w-0 flex-1 bg-transparent outline-none"
          />
          {hears('/') && <Keys>/</Keys>}
        </label>
      </div>
      {requests.length > 0 && (
        <div className="shrink-0 px-2 py-1">
          <button
            type="button"
            aria-current={route.page === 'inbox' ? 'page' : undefined}
            onClick={() => go({ page: 'inbox' })}
            className="flex h-8 w-full items-center gap-2.5 rounded-lg bg-accent-wash px-2.5 text-accent-ink hover:brightness-105 aria-[current=page]:shadow-[inset_0_0_0_1px_var(--accent-line)]"
          >
            <Inbox size={14} />
            <span className="flex-1 text-left font-medium">
              {requests.some(isAnswerable) ? 'Asking for more' : 'Beyond your config'}
            </span>
            <span className="tabular font-medium">{requests.length}</span>
          </button>
        </div>
      )}
      {rows.length > 0 && entries.length === 0 && (
        <p className="shrink-0 px-5 py-4 text-center text-small text-ink-faint">
          Nothing matches your search.
        </p>
      )}
      <DispatchList
        entries={entries}
        asking={asking}
        worktrees={worktrees}
        selected={selected}
        onSelect={(id) => go({ page: 'dispatch', id, tab: null })}
      />
      <div className="flex shrink-0 items-center gap-1 px-2 py-2">
        <HostLine />
        <ThemeButton />
      </div>
    </aside>
  )
}
