import { shellLine } from '../../shared/shellLine.ts'
import type { BoundaryLevel } from '../../shared/boundary.ts'
import type { ChangesetState } from '../../shared/changeset.ts'
import { isTerminal, type DispatchRow, type DispatchStatus } from '../../shared/dispatch.ts'
import type { WorktreeEntry } from '../../shared/invocation.ts'
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

type Standing = Pick<DispatchRow, 'status' | 'recorded_status' | 'changeset'>
export type Word = { readonly label: string; readonly tone: Tone }

/** How its process stands or ended. A word that another program recorded is shown as it is: it is not ours to read. */
export const endingOf = ({ status, recorded_status: recorded }: Omit<Standing, 'changeset'>): Word =>
  recorded === undefined ? statusWords[status] : { label: recorded || 'Unknown', tone: 'neutral' }

/** How it stands for a person: what needs one outshines how the process ended. */
export function standingOf(row: Standing): Word {
  const state = row.changeset?.state
  return state !== undefined && state !== 'active' && isTerminal(row.status)
    ? changesetWords[state]
    : endingOf(row)
}

export const levelWords: Readonly<Record<SandboxLevel, { label: string; detail: string }>> = {
  0: { label: 'No sandbox', detail: 'Level 0: runs with your own rights on this computer.' },
  1: { label: 'OS sandbox', detail: 'Level 1: the operating system keeps it inside its folders.' },
  2: { label: 'Container', detail: 'Level 2: runs in a container with its own file system.' },
  3: { label: 'Virtual machine', detail: 'Level 3: runs on a kernel of its own.' },
}

export const boundaryWords: Readonly<Record<BoundaryLevel, { label: string; detail: string }>> = {
  readonly: {
    label: 'Read only',
    detail: 'May read its folders. Writes nothing; reaches only hosts of its agent and contract.',
  },
  readwrite: { label: 'Read, write', detail: 'Writes go to its changeset. Reaches only hosts of its agent.' },
  network: { label: 'Network', detail: 'Writes go to its changeset. Reaches the hosts it was allowed.' },
  full: { label: 'Full', detail: 'Everything its sandbox level permits.' },
}

/** What a person would call it. */
export function titleOf(row: Pick<DispatchRow, 'name' | 'prompt' | 'command' | 'agent'>): string {
  const firstLine = (text: string | null) => text?.trim().split('\n')[0] ?? ''
  return row.name || firstLine(row.prompt) || shellLine(row.command) || row.agent
}

const lastName = (path: string | undefined) => path?.split('/').findLast((part) => part !== '') ?? '/'

/** `worktrees`: what people call the trees of worktrees, by their paths. */
export const folderOf = (row: Pick<DispatchRow, 'roots'>, worktrees?: ReadonlyMap<string, string>): string =>
  worktrees?.get(row.roots[0] ?? '') ?? lastName(row.roots[0])

/** A worktree by its repository and its own name; its path says neither. */
export function worktreeNames(entries: readonly WorktreeEntry[]): ReadonlyMap<string, string> {
  return new Map(
    entries.flatMap(({ meta }) =>
      meta === null ? [] : [[meta.tree_path, `${lastName(meta.repo_path)} · ${meta.name}`] as const],
    ),
  )
}
export const isWorktreePath = (path: string | undefined): boolean =>
  path !== undefined && /\/worktrees\/[^/]+\/tree$/.test(path)

export type Group = 'waiting' | 'running' | 'earlier'
export const groupWords: Readonly<Record<Group, string>> = {
  waiting: 'Waiting for you',
  running: 'Running',
  earlier: 'Earlier',
}

/** A set of ids, or a map by them. */
type Named = { has(id: string): boolean }

/** `later`: changesets that went on in a newer dispatch, with the id of that one. */
export function groupOf(row: DispatchRow, asking?: Named, later?: ReadonlyMap<string, string>): Group {
  if (asking?.has(row.id)) return 'waiting'
  if (!isTerminal(row.status)) return 'running'
  const newest = row.changeset === null ? undefined : later?.get(row.changeset.id)
  if (newest !== undefined && newest !== row.id) return 'earlier'
  return row.changeset?.state === 'review' ? 'waiting' : 'earlier'
}

/** The newest dispatch of each changeset: that is where it is reviewed, once, however many turns it took. */
export function newestTurns(rows: readonly DispatchRow[]): ReadonlyMap<string, string> {
  const newest = new Map<string, string>()
  for (const { id, changeset } of rows) {
    if (changeset !== null && id > (newest.get(changeset.id) ?? '')) newest.set(changeset.id, id)
  }
  return newest
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

const urgency: readonly Group[] = ['waiting', 'running', 'earlier']

/** What needs a person first, then what runs, then the past. A family stays together, where its most urgent is. */
export function arrange(
  rows: readonly DispatchRow[],
  search: string,
  asking: Named = new Set(),
): readonly ListEntry[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  const later = newestTurns(rows)
  const families: { rows: { row: DispatchRow; depth: number }[]; groups: Group[] }[] = []
  for (const member of asTree(rows.filter((row) => matches(row, words)))) {
    if (member.depth === 0) families.push({ rows: [], groups: [] })
    families.at(-1)?.rows.push(member)
    families.at(-1)?.groups.push(groupOf(member.row, asking, later))
  }
  return urgency.flatMap((group) => {
    const here = families.filter((family) => urgency.find((each) => family.groups.includes(each)) === group)
    if (here.length === 0) return []
    // The heading counts what really waits or runs, not who is shown along with it.
    const count = here.flatMap((family) => family.groups).filter((each) => each === group).length
    return [
      { kind: 'group', group, count },
      ...here.flatMap((family) => family.rows.map((member) => ({ kind: 'row' as const, ...member }))),
    ]
  })
}
