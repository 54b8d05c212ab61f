import type { Decision, Verdict } from '../../shared/changeset.ts'
import { Plain } from '../text/Plain.tsx'
import { ReworkComment, Verdicts } from './Verdicts.tsx'

type HunkBarProps = {
  header: string
  index: number
  count: number
  decision: Decision
  current: boolean
  editable: boolean
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
  comment,
  onDecide,
  onRework,
}: HunkBarProps) {
  return (
    <div
      data-hunk={index}
      data-decision={decision ?? 'open'}
      data-current={current}
      className={`border-y border-line px-3 font-sans ${current ? 'bg-accent-wash' : 'bg-sunken'} ${rails[decision ?? 'open']}`}
    >
      <div className="flex h-8 items-center gap-2">
        <Verdicts
          decision={decision}
          disabled={!editable}
          onDecide={onDecide}
          onRework={onRework}
          subject={`hunk ${index + 1}`}
        />
        <span className="min-w-0 flex-1 truncate text-right font-mono text-micro text-ink-faint">
          <Plain>{header}</Plain>
        </span>
        <span className="tabular shrink-0 text-micro text-ink-faint">
          {index + 1}/{count}
        </span>
      </div>
      {comment !== null && <ReworkComment {...comment} />}
    </div>
  )
}
