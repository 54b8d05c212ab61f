import { ChevronDown, Columns2, Files, Lock, Rows2, Search } from 'lucide-react'
import type { Ref } from 'react'
import type { DiffScope } from '../../shared/changeset.ts'
import { Badge } from '../design/Badge.tsx'
import { Button } from '../design/Button.tsx'
import { Keys } from '../design/Keys.tsx'
import { Menu, MenuItem } from '../design/Menu.tsx'
import { Segments } from '../design/Segments.tsx'
import { Counts } from '../dispatches/Badges.tsx'
import type { DiffLayout } from './DiffView.tsx'
import type { Tally } from './model.ts'

/** What of a changeset is read: all of it, what is new, or commit by commit. */
export type Shown = DiffScope | 'commits'

type ReviewBarProps = {
  /** Null where there is nothing to decide any more. */
  tally: Tally | null
  insertions: number
  deletions: number
  layout: DiffLayout
  onLayout(layout: DiffLayout): void
  find: string
  onFind(text: string): void
  findRef: Ref<HTMLInputElement>
  shown: Shown
  onShown(shown: Shown): void
  commits: number
  /** Where there is no room for the list of files beside them. */
  onFiles(): void
}

function scopesOf(commits: number): readonly { value: Shown; label: string }[] {
  return [
    { value: 'all', label: 'All' },
    { value: 'review', label: 'Since my review' },
    { value: 'turn', label: 'This turn' },
    ...(commits === 0 ? [] : [{ value: 'commits' as const, label: `Commits ${commits}` }]),
  ]
}

/** The same choice twice: side by side where there is room, in a menu where there is not. */
function Scope({ shown, onShown, commits }: Pick<ReviewBarProps, 'shown' | 'onShown' | 'commits'>) {
  const scopes = scopesOf(commits)
  return (
    <>
      <span className="@max-[58rem]:hidden">
        <Segments label="What to show" value={shown} onChange={onShown} segments={scopes} />
      </span>
      <span className="hidden min-w-0 @max-[58rem]:inline-flex">
        <Menu
          trigger={
            <Button look="quiet" size="small" aria-label="What to show">
              {scopes.find((scope) => scope.value === shown)?.label}
              <ChevronDown size={12} />
            </Button>
          }
        >
          {scopes.map(({ value, label }) => (
            <MenuItem key={value} onSelect={() => onShown(value)}>
              {label}
            </MenuItem>
          ))}
        </Menu>
      </span>
    </>
  )
}

function Progress({ tally }: { tally: Tally }) {
  const part = tally.hunks === 0 ? 0 : tally.decidedHunks / tally.hunks
  return (
    <span className="flex shrink-0 items-center gap-2 text-small text-ink-soft" role="status">
      <span className="h-1 w-16 overflow-hidden rounded-full bg-active @max-[42rem]:hidden">
        <span
          className="block h-full rounded-full bg-accent transition-[width]"
          style={{ width: `${part * 100}%` }}
        />
      </span>
      <span className="tabular whitespace-nowrap">
        {tally.decidedHunks}/{tally.hunks}
        <span className="@max-[28rem]:sr-only"> decided</span>
      </span>
      <span className="tabular whitespace-nowrap text-ink-faint @max-[70rem]:hidden">
        in {tally.files} {tally.files === 1 ? 'file' : 'files'}
      </span>
    </span>
  )
}

export function ReviewBar(props: ReviewBarProps) {
  const { tally, insertions, deletions, layout, onLayout, find, onFind, findRef, onFiles } = props
  return (
    <div
      data-review-bar
      className="@container flex h-10 shrink-0 items-center gap-3 border-b border-line px-3 tight:gap-2"
    >
      <span className="hidden tight:inline">
        <Button look="quiet" size="small" icon={<Files size={14} />} aria-label="Files" onClick={onFiles} />
      </span>
      <label className="flex h-7 w-58 min-w-16 shrink items-center gap-2 rounded-md bg-hover px-2 focus-within:bg-raised focus-within:shadow-[0_0_0_1px_var(--accent-line)] tight:w-auto tight:flex-1">
        <Search size={13} className="shrink-0 text-ink-faint" />
        <input
          ref={findRef}
          value={find}
          onChange={(event) => onFind(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === 'Escape') onFind('')
            if (event.key === 'Escape' || event.key === 'Enter') event.currentTarget.blur()
          }}
          placeholder="Find a file"
          aria-label="Find a file"
          spellCheck={false}
          className="min-w-0 flex-1 bg-transparent text-small outline-none"
        />
        <Keys>/</Keys>
      </label>
      {tally !== null && <Progress tally={tally} />}
      <Counts insertions={insertions} deletions={deletions} className="@max-[70rem]:hidden" />
      {tally !== null && tally.protectedOpen > 0 && (
        <Badge
          tone="bad"
          icon={<Lock size={11} />}
          title="Protected files are decided on one by one."
          className="@max-[38rem]:hidden"
        >
          {tally.protectedOpen} protected
        </Badge>
      )}
      <span className="flex-1 tight:hidden" />
      <Scope {...props} />
      <Segments
        label="Layout of the diff"
        compact
        value={layout}
        onChange={onLayout}
        segments={[
          { value: 'unified', label: 'Unified', icon: <Rows2 size={13} />, keys: 'v' },
          { value: 'split', label: 'Side by side', icon: <Columns2 size={13} />, keys: 'v' },
        ]}
      />
    </div>
  )
}
