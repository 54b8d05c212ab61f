import { shellLine } from '../../shared/shellLine.ts'
import type { BoundaryLevel } from '../../shared/boundary.ts'
import type { ChangesetState } from '../../shared/changeset.ts'
import { isTerminal, type DispatchRow, type DispatchStatus } from '../../shared/dispatch.ts'
import type { SandboxLevel } from '../../shared/level.ts'
import { asTree } from '../../shared/tree.ts'
import type { Tone } from '../design/Badge.tsx'

export const statusWords: Readonly<Record<DispatchStatus, { label: string; tone: Tone }>> = {
  preflight_failed: { label: 'Did not start', tone: 'warn' },
  starting: { label: 'Starting', tone: 'live' },
  running: { label: 'Running', tone: 'live' },
  completed: { label: 'Completed', tone: 'good' },
  failed: { label: 'Failed', tone: 'bad' },
  timeout: { label: 'Timed out', tone: 'bad' },
  cancelled: { label: 'Stopped', tone: 'neutral' },
  interrupted: { label: 'Interrupted', tone: 'warn' },
}

export const changesetWords: Readonly<Record<ChangesetState, { label: string; tone: Tone }>> = {
  active: { label: 'Still changing', tone: 'live' },
  review: { label: 'Needs review', tone: 'accent' },
  applied: { label: 'Applied', tone: 'good' },
  rejected: { label: 'Sent back', tone: 'warn' },
  abandoned: { label: 'Abandoned', tone: 'neutral' },
}

export const levelWords: Readonly<Record<SandboxLevel, { label: string; detail: string }>> = {
  0: { label: 'No sandbox', detail: 'Level 0: runs with your own rights on this computer.' },
  1: { label: 'OS sandbox', detail: 'Level 1: the operating system keeps it inside its folders.' },
  2: { label: 'Container', detail: 'Level 2: runs in a container with its own file system.' },
  3: { label: 'Virtual machine', detail: 'Level 3: runs on a kernel of its own.' },
}

export const boundaryWords: Readonly<Record<BoundaryLevel, { label: string; detail: string }>> = {
  readonly: { label: 'Read only', detail: 'May read its folders. Writes nothing, reaches no host.' },
  readwrite: { label: 'Read, write', detail: 'Writes go to its changeset. Reaches no host.' },
  network: { label: 'Network', detail: 'Writes go to its changeset. Reaches the hosts it was allowed.' },
  full: { label: 'Full', detail: 'Everything its sandbox level permits.' },
}

/** What a person would call it. */
export function titleOf(row: Pick<DispatchRow, 'name' | 'prompt' | 'command' | 'agent'>): string {
  const firstLine = (text: string | null) => text?.trim().split('\n')[0] ?? ''
  return row.name || firstLine(row.prompt) || shellLine(row.command) || row.agent
}

export const folderOf = (row: Pick<DispatchRow, 'roots'>): string =>
  row.roots[0]?.split('/').findLast((part) => part !== '') ?? '/'

export type Group = 'waiting' | 'running' | 'earlier'
export const groupWords: Readonly<Record<Group, string>> = {
  waiting: 'Waiting for you',
  running: 'Running',
  earlier: 'Earlier',
}

export function groupOf(row: DispatchRow, asking?: ReadonlySet<string>): Group {
  if (asking?.has(row.id)) return 'waiting'
  if (!isTerminal(row.status)) return 'running'
  return row.changeset?.state === 'review' ? 'waiting' : 'earlier'
}

const matches = (row: DispatchRow, words: readonly string[]) => {
  const text = [row.id, row.name, row.prompt, row.agent, row.status, ...row.command, ...row.roots]
    .join(' ')
    .toLowerCase()
  return words.every((word) => text.includes(word))
}

export type ListEntry =
  | { readonly kind: 'group'; readonly group: Group; readonly count: number }
  | { readonly kind: 'row'; readonly row: DispatchRow; readonly depth: number }

/** What needs a person first, then what runs, then the past; children under their parent. */
export function arrange(
  rows: readonly DispatchRow[],
  search: string,
  asking: ReadonlySet<string> = new Set(),
): readonly ListEntry[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  const found = rows.filter((row) => matches(row, words))
  const entries: ListEntry[] = []
  for (const group of ['waiting', 'running', 'earlier'] as const) {
    const members = found.filter((row) => groupOf(row, asking) === group)
    if (members.length === 0) continue
    entries.push({ kind: 'group', group, count: members.length })
    for (const { row, depth } of asTree(members)) entries.push({ kind: 'row', row, depth })
  }
  return entries
}
