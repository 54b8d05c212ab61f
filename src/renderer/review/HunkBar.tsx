import { History, MessageSquareText } from 'lucide-react'
import type { Decision, Provenance, ReviewComment, Verdict } from '../../shared/changeset.ts'
import { Plain } from '../text/Plain.tsx'
import { originWords } from './provenance.ts'
import { ReworkComment, Verdicts } from './Verdicts.tsx'

type HunkBarProps = {
  header: string
  index: number
  count: number
  decision: Decision
  current: boolean
  editable: boolean
  provenance: Provenance | null
  comments: readonly ReviewComment[]
  comment: { draft: string; onDraft(text: string): void; onSend(text: string): void; onCancel(): void } | null
  onDecide(verdict: Verdict | null): void
  onRework(): void
}

const rails: Readonly<Record<'approve' | 'reject' | 'rework' | 'open', string>> = {
  approve: 'shadow-[inset_3px_0_0_var(--good)]',
  reject: 'shadow-[inset_3px_0_0_var(--bad)]',
  rework: 'shadow-[inset_3px_0_0_var(--warn)]',
  open: '',
}

export function HunkBar({
  header,
  index,
  count,
  decision,
  current,
  editable,
  provenance,
  comments,
  comment,
  onDecide,
  onRework,
}: HunkBarProps) {
  return (
    <div
      data-hunk={index}
      data-decision={decision ?? 'open'}
      data-current={current}
      className={`@container border-y border-line px-3 font-sans ${current ? 'bg-accent-wash' : 'bg-sunken'} ${rails[decision ?? 'open']}`}
    >
      <div className={`flex h-8 items-center gap-2 ${current ? 'text-ink-soft' : 'text-ink-faint'}`}>
        <Verdicts
          decision={decision}
          disabled={!editable}
          onDecide={onDecide}
          onRework={onRework}
          subject={`hunk ${index + 1}`}
        />
        {provenance !== null && (
          <span
            className="flex max-w-64 min-w-0 items-center gap-1 truncate text-micro @max-[34rem]:hidden"
            title={provenance.certain ? 'Written by this' : 'Likely written by this: it fits in time'}
          >
            <History size={12} className="shrink-0" />
            <span className="truncate">
              <Plain>{originWords(provenance)}</Plain>
            </span>
          </span>
        )}
        <span className="min-w-0 flex-1 truncate text-right font-mono text-micro">
          <Plain>{header}</Plain>
        </span>
        <span className="tabular shrink-0 text-micro">
          {index + 1}/{count}
        </span>
      </div>
      {comments.map((said) => (
        <p key={said.at + said.text} className="selectable flex items-start gap-2 pb-2 text-small">
          <MessageSquareText size={13} className="mt-0.5 shrink-0 text-warn" />
          <span className="min-w-0 [overflow-wrap:anywhere]">
            <span className="text-ink-faint">
              <Plain>{said.by}</Plain>
              {said.outdated ? ', on what it was before' : ''}
            </span>{' '}
            <Plain>{said.text}</Plain>
          </span>
        </p>
      ))}
      {comment !== null && <ReworkComment {...comment} />}
    </div>
  )
}
