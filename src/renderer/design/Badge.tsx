import type { ReactNode } from 'react'

export type Tone = 'neutral' | 'accent' | 'good' | 'bad' | 'warn' | 'live'
const tones: Readonly<Record<Tone, string>> = {
  neutral: 'text-ink-soft bg-hover',
  accent: 'text-accent-ink bg-accent-wash',
  good: 'text-good bg-good-wash',
  bad: 'text-bad bg-bad-wash',
  warn: 'text-warn bg-warn-wash',
  live: 'text-live bg-live-wash',
}

export function Badge({
  tone = 'neutral',
  icon,
  children,
  className = '',
  title,
}: {
  tone?: Tone
  icon?: ReactNode
  children: ReactNode
  className?: string
  title?: string
}) {
  return (
    <span
      title={title}
      className={`inline-flex h-5 shrink-0 items-center gap-1 rounded-md px-1.5 text-micro font-medium whitespace-nowrap ${tones[tone]} ${className}`}
    >
      {icon}
      {children}
    </span>
  )
}
