import { ArrowRight, ChevronDown, GitCompareArrows, Lock } from 'lucide-react'
import type { ChangedFile, Verdict } from '../../shared/changeset.ts'
import { Badge } from '../design/Badge.tsx'
import { Button } from '../design/Button.tsx'
import { Counts } from '../dispatches/Badges.tsx'
import { PathText, Plain } from '../text/Plain.tsx'
import { bytes } from '../text/time.ts'
import { ChangeLetter } from './FileList.tsx'
import { stateOf } from './model.ts'
import { Verdicts } from './Verdicts.tsx'

const copyWords = ({ copy_similarity: percent = 100 }: ChangedFile, original: string) =>
  percent === 100 ? `Copy of ${original}` : `Edited copy of ${original} (${percent} % the same)`

/** What cannot be said in lines of text. */
function noteOf(file: ChangedFile): string | null {
  if (file.refused !== null) return `Cannot land: ${file.refused}`
  const notes: string[] = []
  if (file.kind === 'directory') notes.push('Folder')
  if (file.kind === 'symlink') notes.push('Symbolic link')
  if (file.copy_of !== undefined) notes.push(copyWords(file, file.copy_of))
  if (file.from_path !== undefined && stateOf(file) === 'partial')
    notes.push('Approved hunks land under the old name; the new one lands with all of it')
  if (file.binary) {
    const sizes = [file.size_before, file.size_after].map((size) => (size === null ? null : bytes(size)))
    notes.push(`Binary, ${sizes.filter((size) => size !== null).join(' → ')}`)
  }
  if (file.mode_before !== null && file.mode_after !== null && file.mode_before !== file.mode_after) {
    notes.push(`Mode ${file.mode_before} → ${file.mode_after}`)
  }
  return notes.length === 0 ? null : notes.join(' · ')
}

type FileHeaderProps = {
  file: ChangedFile
  /** The name of its root, where there are several. */
  rootName: string
  collapsed: boolean
  loaded: boolean
  editable: boolean
  current: boolean
  onToggle(): void
  onDecide(verdict: Verdict | null): void
  onRework(): void
  /** What became of it since it was decided on. */
  onSince(): void
}

export function FileHeader({
  file,
  rootName,
  collapsed,
  loaded,
  editable,
  current,
  onToggle,
  onDecide,
  onRework,
  onSince,
}: FileHeaderProps) {
  const note = noteOf(file)
  const state = stateOf(file)
  const decision =
    state === 'approved' ? 'approve' : state === 'rejected' ? 'reject' : state === 'rework' ? 'rework' : null
  const lines = file.insertions + file.deletions
  return (
    <div
      data-file-header={file.path}
      data-current={current}
      className={`@container flex h-10 items-center gap-2 bg-sunken px-3 font-sans text-base text-ink ${file.protected ? 'shadow-[inset_3px_0_0_var(--bad-solid)]' : current ? 'shadow-[inset_3px_0_0_var(--accent)]' : ''}`}
    >
      <Button
        look="quiet"
        size="small"
        aria-expanded={!collapsed}
        aria-label={collapsed ? 'Show' : 'Hide'}
        icon={<ChevronDown size={14} className={`transition-transform ${collapsed ? '-rotate-90' : ''}`} />}
        onClick={onToggle}
      />
      <ChangeLetter change={file.change} />
      <span className="flex min-w-0 flex-auto items-center gap-1.5 font-mono text-small">
        {file.from_path !== undefined && (
          <>
            <PathText path={file.from_path} className="text-ink-faint" />
            <ArrowRight size={12} className="shrink-0 text-ink-faint" />
          </>
        )}
        <PathText path={rootName + file.path} className="font-medium" />
        {file.protected && (
          <Badge
            tone="bad"
            icon={<Lock size={11} />}
            className="ml-1 font-sans"
            title="Can run code or change how tools behave. Decided on one by one."
          >
            <span className="@max-[28rem]:sr-only">Protected</span>
          </Badge>
        )}
        {file.ignored && <Badge className="ml-1 font-sans">Ignored</Badge>}
        {file.reopened === true && (
          <button
            type="button"
            onClick={onSince}
            title="You decided on it before; it has changed since. See what changed."
            className="ml-1 inline-flex h-5 shrink-0 items-center gap-1 rounded-md bg-live-wash px-1.5 font-sans text-micro font-medium text-live hover:brightness-95"
          >
            <GitCompareArrows size={11} />
            <span className="@max-[34rem]:sr-only">Changed again</span>
          </button>
        )}
      </span>
      {note !== null && (
        <span className="max-w-1/2 min-w-0 shrink-9999 truncate text-small text-ink-faint" title={note}>
          <Plain>{note}</Plain>
        </span>
      )}
      {collapsed && lines > 0 && (
        <Button look="quiet" size="small" onClick={onToggle} className="@max-[26rem]:hidden">
          {loaded ? 'Show' : 'Load'}
          <span className="@max-[38rem]:sr-only">{loaded ? `${lines} changed lines` : 'diff'}</span>
        </Button>
      )}
      {lines > 0 && (
        <Counts insertions={file.insertions} deletions={file.deletions} className="@max-[22rem]:hidden" />
      )}
      {file.refused === null && (
        <Verdicts
          decision={decision}
          disabled={!editable}
          onDecide={onDecide}
          onRework={onRework}
          subject="file"
          compact
        />
      )}
    </div>
  )
}
