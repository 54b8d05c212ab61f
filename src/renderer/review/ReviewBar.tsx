import { Columns2, Lock, Rows2, Search } from 'lucide-react'
import type { Ref } from 'react'
import type { DiffScope } from '../../shared/changeset.ts'
import { Badge } from '../design/Badge.tsx'
import { Keys } from '../design/Keys.tsx'
import { Segments } from '../design/Segments.tsx'
import { Counts } from '../dispatches/Badges.tsx'
import type { DiffLayout } from './DiffView.tsx'
import type { Tally } from './model.ts'

type ReviewBarProps = {
  tally: Tally
  insertions: number
  deletions: number
  layout: DiffLayout
  onLayout(layout: DiffLayout): void
  find: string
  onFind(text: string): void
  findRef: Ref<HTMLInputElement>
  scope: DiffScope
  onScope(scope: DiffScope): void
}

export function ReviewBar({
  tally,
  insertions,
  deletions,
  layout,
  onLayout,
  find,
  onFind,
  findRef,
  scope,
  onScope,
}: ReviewBarProps) {
  const part = tally.hunks === 0 ? 0 : tally.decidedHunks / tally.hunks
  return (
    <div className="flex h-10 shrink-0 items-center gap-3 border-b border-line px-3">
      <label className="flex h-7 w-58 items-center gap-2 rounded-md bg-hover px-2 focus-within:bg-raised focus-within:shadow-[0_0_0_1px_var(--accent-line)] max-[64rem]:w-46">
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
      <span className="flex items-center gap-2 text-small text-ink-soft" role="status">
        <span className="h-1 w-16 overflow-hidden rounded-full bg-active max-[60rem]:hidden">
          <span
            className="block h-full rounded-full bg-accent transition-[width]"
            style={{ width: `${part * 100}%` }}
          />
        </span>
        <span className="tabular whitespace-nowrap">
          {tally.decidedHunks}/{tally.hunks} decided
        </span>
        <span className="tabular whitespace-nowrap text-ink-faint max-[64rem]:hidden">
          in {tally.files} {tally.files === 1 ? 'file' : 'files'}
        </span>
      </span>
      <Counts insertions={insertions} deletions={deletions} />
      {tally.protectedOpen > 0 && (
        <Badge tone="bad" icon={<Lock size={11} />} title="Protected files are decided on one by one.">
          {tally.protectedOpen} protected
        </Badge>
      )}
      <span className="flex-1" />
      <span className="max-[60rem]:hidden">
        <Segments
          label="What to show"
          value={scope}
          onChange={onScope}
          segments={[
            { value: 'all', label: 'All' },
            { value: 'review', label: 'Since my review' },
            { value: 'turn', label: 'This turn' },
          ]}
        />
      </span>
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
