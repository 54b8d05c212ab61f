import { ToggleGroup } from 'radix-ui'
import type { ReactNode } from 'react'
import { Tip } from './Tip.tsx'

type Segment<T extends string> = { value: T; label: string; icon?: ReactNode; keys?: string }

export function Segments<T extends string>({
  label,
  value,
  segments,
  onChange,
  compact = false,
}: {
  label: string
  value: T
  segments: readonly Segment<T>[]
  onChange(value: T): void
  compact?: boolean
}) {
  return (
    <ToggleGroup.Root
      type="single"
      aria-label={label}
      value={value}
      onValueChange={(next) => next !== '' && onChange(next as T)}
      className="inline-flex shrink-0 rounded-md bg-hover p-0.5"
    >
      {segments.map((segment) => {
        const item = (
          <ToggleGroup.Item
            key={segment.value}
            value={segment.value}
            aria-label={segment.label}
            className="inline-flex h-5 items-center gap-1 rounded-sm px-1.5 text-small text-ink-faint hover:text-ink aria-checked:bg-raised aria-checked:text-ink aria-checked:shadow-[0_0_0_1px_var(--line),0_1px_1px_oklch(0_0_0/6%)]"
          >
            {segment.icon}
            {!compact && segment.label}
          </ToggleGroup.Item>
        )
        return compact ? (
          <Tip
            key={segment.value}
            text={segment.label}
            {...(segment.keys === undefined ? {} : { keys: segment.keys })}
          >
            {item}
          </Tip>
        ) : (
          item
        )
      })}
    </ToggleGroup.Root>
  )
}
