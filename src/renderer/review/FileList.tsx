import { useVirtualizer } from '@tanstack/react-virtual'
import { Ban, Check, ChevronRight, CircleDashed, FileCode, Lock, MessageSquare, X } from 'lucide-react'
import { useEffect, useMemo, useRef, useState } from 'react'
import type { ChangedFile, ChangeKind } from '../../shared/changeset.ts'
import { Counts } from '../dispatches/Badges.tsx'
import { PathText } from '../text/Plain.tsx'
import {
  keyOf,
  sectionOf,
  sectionWords,
  sections,
  stateOf,
  type FileKey,
  type FileState,
  type Section,
} from './model.ts'

const letters: Readonly<Record<ChangeKind, { letter: string; label: string; className: string }>> = {
  added: { letter: 'A', label: 'Added', className: 'text-good' },
  modified: { letter: 'M', label: 'Modified', className: 'text-live' },
  deleted: { letter: 'D', label: 'Deleted', className: 'text-bad' },
  renamed: { letter: 'R', label: 'Renamed', className: 'text-warn' },
  mode: { letter: 'P', label: 'Permissions changed', className: 'text-warn' },
  type: { letter: 'T', label: 'Kind changed', className: 'text-warn' },
}

export function ChangeLetter({ change }: { change: ChangeKind }) {
  const { letter, label, className } = letters[change]
  return (
    <span
      title={label}
      aria-label={label}
      role="img"
      className={`w-3 shrink-0 text-center font-mono text-micro font-semibold ${className}`}
    >
      {letter}
    </span>
  )
}

const stateIcons: Readonly<
  Record<FileState, { icon: typeof Check; label: string; className: string } | null>
> = {
  approved: { icon: Check, label: 'Approved', className: 'text-good' },
  rejected: { icon: X, label: 'Rejected', className: 'text-bad' },
  rework: { icon: MessageSquare, label: 'Rework', className: 'text-warn' },
  partial: { icon: CircleDashed, label: 'Partly decided', className: 'text-accent-ink' },
  open: null,
}

export function StateIcon({ state }: { state: FileState }) {
  const shown = stateIcons[state]
  if (shown === null) return null
  const { icon: Icon, label, className } = shown
  return <Icon size={14} aria-label={label} className={`shrink-0 ${className}`} />
}

type Entry =
  | { readonly kind: 'section'; readonly section: Section; readonly count: number }
  | { readonly kind: 'file'; readonly file: ChangedFile }

type FileListProps = {
  files: readonly ChangedFile[]
  current: FileKey | null
  /** What each root is called, where there are several. */
  roots: ReadonlyMap<string, string>
  /** What is said where there is none. */
  empty: string
  onSelect(key: FileKey): void
}

export function FileList({ files, current, roots, empty, onSelect }: FileListProps) {
  const scroller = useRef<HTMLDivElement>(null)
  const [toggled, setToggled] = useState<ReadonlySet<Section>>(new Set())
  const isOpen = (section: Section) => (section === 'ignored') === toggled.has(section)
  const entries = useMemo(() => {
    const list: Entry[] = []
    for (const section of sections) {
      const members = files.filter((file) => sectionOf(file) === section)
      if (members.length === 0) continue
      list.push({ kind: 'section', section, count: members.length })
      if ((section === 'ignored') === toggled.has(section))
        for (const file of members) list.push({ kind: 'file', file })
    }
    return list
  }, [files, toggled])

  const virtualizer = useVirtualizer({
    count: entries.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 28,
    overscan: 20,
  })
  const position = entries.findIndex((entry) => entry.kind === 'file' && keyOf(entry.file) === current)
  useEffect(() => {
    if (position >= 0) virtualizer.scrollToIndex(position, { align: 'auto' })
  }, [position, virtualizer])

  return (
    <div
      ref={scroller}
      role="listbox"
      aria-label="Changed files"
      tabIndex={-1}
      className="min-h-0 flex-1 overflow-y-auto px-2 pb-2 outline-none"
    >
      <div className="relative" style={{ height: virtualizer.getTotalSize() }}>
        {virtualizer.getVirtualItems().map((item) => {
          const entry = entries[item.index]
          if (entry === undefined) return null
          const style = { height: item.size, transform: `translateY(${item.start}px)` }
          if (entry.kind === 'section') {
            const open = isOpen(entry.section)
            return (
              <button
                key={item.key}
                type="button"
                aria-expanded={open}
                style={style}
                onClick={() =>
                  setToggled((former) => {
                    const next = new Set(former)
                    if (!next.delete(entry.section)) next.add(entry.section)
                    return next
                  })
                }
                className={`absolute inset-x-0 top-0 flex items-center gap-1 px-1.5 text-micro font-medium hover:text-ink ${entry.section === 'protected' ? 'text-bad' : 'text-ink-faint'}`}
              >
                <ChevronRight size={12} className={`transition-transform ${open ? 'rotate-90' : ''}`} />
                {sectionWords[entry.section]}
                <span className="tabular opacity-70">{entry.count}</span>
              </button>
            )
          }
          const { file } = entry
          const key = keyOf(file)
          return (
            <button
              key={item.key}
              type="button"
              role="option"
              aria-selected={key === current}
              data-file={file.path}
              style={style}
              onClick={() => onSelect(key)}
              className={`absolute inset-x-0 top-0 flex items-center gap-2 rounded-md pr-2 pl-2 text-left text-small outline-offset-[-2px] hover:bg-hover aria-selected:bg-active ${file.protected ? 'before:absolute before:inset-y-1 before:left-0 before:w-0.5 before:rounded-full before:bg-bad-solid' : ''}`}
            >
              {file.refused === null ? (
                file.protected ? (
                  <Lock size={12} className="shrink-0 text-bad" />
                ) : (
                  <ChangeLetter change={file.change} />
                )
              ) : (
                <Ban size={12} className="shrink-0 text-bad" />
              )}
              <PathText path={(roots.get(file.root) ?? '') + file.path} className="flex-1" />
              <StateIcon state={stateOf(file)} />
              {stateOf(file) === 'open' && (file.insertions > 0 || file.deletions > 0) && (
                <Counts insertions={file.insertions} deletions={file.deletions} />
              )}
            </button>
          )
        })}
      </div>
      {files.length === 0 && (
        <p className="flex flex-col items-center gap-2 py-8 text-small text-ink-faint">
          <FileCode size={18} />
          {empty}
        </p>
      )}
    </div>
  )
}
