import { Check, MessageSquare, X } from 'lucide-react'
import { useState } from 'react'
import type { Decision, Verdict } from '../../shared/changeset.ts'
import { Badge } from '../design/Badge.tsx'
import { Button } from '../design/Button.tsx'
import { Keys, sendKeys } from '../design/Keys.tsx'

const verdictWords = {
  approve: {
    label: 'Approve',
    done: 'Approved',
    keys: 'a',
    icon: Check,
    tone: 'good',
    on: 'bg-good-wash! text-good!',
  },
  reject: {
    label: 'Reject',
    done: 'Rejected',
    keys: 'x',
    icon: X,
    tone: 'bad',
    on: 'bg-bad-wash! text-bad!',
  },
  rework: {
    label: 'Rework',
    done: 'Rework',
    keys: 'r',
    icon: MessageSquare,
    tone: 'warn',
    on: 'bg-warn-wash! text-warn!',
  },
} as const

type VerdictsProps = {
  decision: Decision
  disabled?: boolean
  onDecide(verdict: Verdict | null): void
  /** Asks for a comment first. */
  onRework(): void
  subject: string
  /** Icons only, where the words would be repeated. */
  compact?: boolean
}

/** The three verbs. Pressing the one that holds takes it back. Where nothing can be decided any more: what was. */
export function Verdicts({
  decision,
  disabled = false,
  onDecide,
  onRework,
  subject,
  compact = false,
}: VerdictsProps) {
  if (disabled) {
    if (decision === null) return null
    const { done, icon: Icon, tone } = verdictWords[decision]
    return (
      <Badge tone={tone} icon={<Icon size={12} />}>
        {done}
      </Badge>
    )
  }
  return (
    <span className="inline-flex shrink-0 gap-0.5">
      {(Object.keys(verdictWords) as Verdict[]).map((verdict) => {
        const { label, done, keys, icon: Icon, on } = verdictWords[verdict]
        const held = decision === verdict
        return (
          <Button
            key={verdict}
            look="quiet"
            size="small"
            aria-pressed={held}
            aria-label={`${label} ${subject}`}
            tip={held ? `Take back: ${done.toLowerCase()}` : label}
            keys={keys}
            icon={<Icon size={13} />}
            className={held ? on : ''}
            onClick={() => (held ? onDecide(null) : verdict === 'rework' ? onRework() : onDecide(verdict))}
          >
            {compact ? undefined : <span className="@max-[20rem]:hidden">{held ? done : label}</span>}
          </Button>
        )
      })}
    </span>
  )
}

export function ReworkComment({
  draft,
  onDraft,
  onSend,
  onCancel,
}: {
  draft: string
  onDraft(text: string): void
  onSend(comment: string): void
  onCancel(): void
}) {
  const [touched, setTouched] = useState(false)
  const missing = touched && draft.trim() === ''
  const send = () => {
    if (draft.trim() === '') setTouched(true)
    else onSend(draft.trim())
  }
  return (
    <form
      className="flex flex-col gap-2 pb-2"
      onSubmit={(event) => {
        event.preventDefault()
        send()
      }}
    >
      <textarea
        // oxlint-disable-next-line jsx-a11y/no-autofocus -- the person asked for this field by key or button
        autoFocus
        rows={2}
        value={draft}
        onChange={(event) => onDraft(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape') onCancel()
          if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) send()
        }}
        placeholder="What should the agent do differently?"
        aria-label="Comment for rework"
        aria-invalid={missing}
        className="w-full resize-y rounded-md bg-raised px-2.5 py-1.5 text-base shadow-[0_0_0_1px_var(--line-strong)] outline-none focus:shadow-[0_0_0_1.5px_var(--accent-line)] aria-invalid:shadow-[0_0_0_1.5px_var(--bad-line)]"
      />
      <span className="flex items-center gap-2">
        <Button type="submit" look="primary" size="small">
          Ask for rework
          <Keys>{sendKeys}</Keys>
        </Button>
        <Button look="quiet" size="small" onClick={onCancel}>
          Cancel
          <Keys>Esc</Keys>
        </Button>
        {missing && <span className="text-small text-bad">Say what should change.</span>}
      </span>
    </form>
  )
}
