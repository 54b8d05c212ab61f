import { Box, Eye, Globe, MonitorCog, PenLine, Shield, ShieldOff, Unlock } from 'lucide-react'
import type { BoundaryLevel } from '../../shared/boundary.ts'
import { isTerminal, type DispatchRow } from '../../shared/dispatch.ts'
import type { SandboxLevel } from '../../shared/level.ts'
import { Badge, type Tone } from '../design/Badge.tsx'
import { Tip } from '../design/Tip.tsx'
import { Plain } from '../text/Plain.tsx'
import { boundaryWords, endingOf, levelWords, standingOf, type Word } from './words.ts'

const levelIcons = { 0: ShieldOff, 1: Shield, 2: Box, 3: MonitorCog } as const
const boundaryIcons = { readonly: Eye, readwrite: PenLine, network: Globe, full: Unlock } as const

export function LevelIcon({
  level,
  size = 13,
  className = '',
}: {
  level: SandboxLevel
  size?: number
  className?: string
}) {
  const Icon = levelIcons[level]
  return (
    <Icon
      size={size}
      className={`${level === 0 ? 'text-bad' : ''} ${className}`}
      aria-label={levelWords[level].label}
    />
  )
}

export function LevelBadge({ level }: { level: SandboxLevel }) {
  return (
    <Tip text={levelWords[level].detail}>
      <span tabIndex={-1} className="inline-flex">
        <Badge tone={level === 0 ? 'bad' : 'neutral'} icon={<LevelIcon level={level} size={12} />}>
          {levelWords[level].label}
        </Badge>
      </span>
    </Tip>
  )
}

export function BoundaryIcon({ boundary, size }: { boundary: BoundaryLevel; size: number }) {
  const Icon = boundaryIcons[boundary]
  return <Icon size={size} />
}

/** `isHeld`: not at level 0, where nothing holds an agent to its boundary. */
export function BoundaryBadge({ boundary, isHeld = true }: { boundary: BoundaryLevel; isHeld?: boolean }) {
  const { label, detail } = boundaryWords[boundary]
  return (
    <Tip text={isHeld ? detail : 'Without a sandbox nothing holds it to a boundary.'}>
      <span tabIndex={-1} className="inline-flex">
        <Badge
          tone={boundary === 'full' || !isHeld ? 'warn' : 'neutral'}
          icon={<BoundaryIcon boundary={boundary} size={12} />}
        >
          {isHeld ? label : `${label}, not enforced`}
        </Badge>
      </span>
    </Tip>
  )
}

/** Level and boundary in a corner of a row: `L1` and what it may do now. */
export function LevelChip({ level, boundary }: Pick<DispatchRow, 'level' | 'boundary'>) {
  if (level === null) return null
  const Icon = boundary === null ? null : boundaryIcons[boundary]
  const isHeld = level > 0
  const may = boundary === null ? [] : [boundaryWords[boundary].label + (isHeld ? '' : ', not enforced')]
  const said = [levelWords[level].label, ...may]
  return (
    <span
      role="img"
      aria-label={`Level ${level}: ${said.join('; ')}`}
      title={said.join(' · ')}
      className={`inline-flex h-4 shrink-0 items-center gap-0.5 rounded-sm px-1 font-mono text-[0.625rem] font-medium shadow-[inset_0_0_0_1px_var(--line-strong)] ${level === 0 ? 'text-bad' : 'text-ink-soft'}`}
    >
      L{level}
      {Icon !== null && isHeld && <Icon size={9} strokeWidth={2.25} />}
    </span>
  )
}

const inks: Readonly<Record<Tone, string>> = {
  neutral: 'text-ink-faint',
  accent: 'text-accent-ink',
  good: 'text-ink-faint',
  bad: 'text-bad',
  warn: 'text-warn',
  live: 'text-live',
}

/** Who asks for more needs a person, whatever else is to be said of it. */
const saidOf = (row: DispatchRow, asks: Word | undefined) => asks ?? standingOf(row)

/** The same in a word. Only what wants attention has a colour. */
export function StatusWord({ row, asks }: { row: DispatchRow; asks: Word | undefined }) {
  const { label, tone } = saidOf(row, asks)
  return (
    <span className={`min-w-0 shrink-0 truncate ${inks[tone]}`}>
      <Plain>{label}</Plain>
    </span>
  )
}

export function StatusBadge({ row }: { row: Pick<DispatchRow, 'status' | 'recorded_status' | 'exit_code'> }) {
  const { label, tone } = endingOf(row)
  const code = row.status === 'failed' && row.exit_code !== null ? ` (${row.exit_code})` : ''
  return (
    <Badge
      tone={tone}
      icon={tone === 'live' ? <span className="ripple size-1.5 rounded-full bg-live" /> : undefined}
    >
      <Plain>{label + code}</Plain>
    </Badge>
  )
}

const dots: Readonly<Record<Tone, string>> = {
  neutral: 'bg-ink-faint/60',
  accent: 'bg-accent',
  good: 'bg-good',
  bad: 'bg-bad',
  warn: 'bg-warn',
  live: 'bg-live ripple',
}

/** One dot for how it stands: what needs a person outshines how the process ended. */
export function StatusDot({ row, asks }: { row: DispatchRow; asks: Word | undefined }) {
  const word = saidOf(row, asks)
  const label = isTerminal(row.status) && row.changeset ? `${endingOf(row).label}, ${word.label}` : word.label
  return (
    <span
      // Its word stands beside it.
      aria-hidden
      data-status={row.status}
      title={label}
      // What never ran is an empty ring: nothing came of it, but nothing broke either.
      className={`size-2 shrink-0 rounded-full ${row.status === 'preflight_failed' ? 'shadow-[inset_0_0_0_1.5px_var(--warn)]' : dots[word.tone]}`}
    />
  )
}

export function Counts({
  insertions,
  deletions,
  className = '',
}: {
  insertions: number
  deletions: number
  className?: string
}) {
  if (insertions === 0 && deletions === 0) return null
  return (
    <span className={`tabular inline-flex shrink-0 gap-1 font-mono text-micro ${className}`}>
      <span className="text-good">+{insertions}</span>
      <span className="text-bad">−{deletions}</span>
    </span>
  )
}
