import type {
  ApplyResult,
  ChangedFile,
  Changeset,
  ChangeKind,
  Conflicts,
  Glimpse,
} from '../../shared/changeset.ts'
import type { ChangesetSummary } from '../../shared/dispatch.ts'
import type { WaitingLanding } from '../../shared/invocation.ts'
import { paint, paintState } from '../terminal/style.ts'
import { renderTable } from '../terminal/table.ts'
import { showAll, showLines } from '../../shared/visible.ts'
import { plural } from '../terminal/words.ts'

const counts = (insertions: number, deletions: number) =>
  `${paint('green', `+${insertions}`)} ${paint('red', `-${deletions}`)}`

export function renderChangesets(changesets: readonly ChangesetSummary[]): string {
  if (changesets.length === 0) return 'no changesets'
  const isFlagged = changesets.some(({ escalated }) => escalated != null)
  return renderTable(
    ['id', 'state', 'files', 'lines', ...(isFlagged ? ['needs a person'] : [])],
    changesets.map(({ id, state, files, insertions, deletions, escalated }) => [
      id,
      paintState(state),
      String(files),
      counts(insertions, deletions),
      ...(isFlagged ? [paint('red', showAll(escalated ?? ''))] : []),
    ]),
  )
}

const letters: Readonly<Record<ChangeKind, string>> = {
  added: 'A',
  modified: 'M',
  deleted: 'D',
  renamed: 'R',
  mode: 'm',
  type: 'T',
}

function remarks(file: ChangedFile): string {
  const words = [
    file.kind === 'file' ? '' : file.kind,
    file.copy_of === undefined
      ? ''
      : `${(file.copy_similarity ?? 100) < 100 ? 'edited copy' : 'copy'} of ${showAll(file.copy_of)}`,
    file.binary ? 'binary' : '',
    file.mode_before !== null && file.mode_after !== null && file.mode_before !== file.mode_after
      ? `${file.mode_before} → ${file.mode_after}`
      : '',
    file.protected ? paint('red', 'protected') : '',
    file.ignored ? paint('gray', 'ignored') : '',
    file.reopened === true ? paint('yellow', 'changed since it was decided on') : '',
    file.refused === null ? '' : paint('red', `never lands: ${showAll(file.refused)}`),
  ]
  return words.filter((word) => word !== '').join(', ')
}

function renderFile(file: ChangedFile, severalRoots: boolean): string[] {
  const name = file.from_path === undefined ? file.path : `${file.from_path} → ${file.path}`
  return [
    letters[file.change],
    counts(file.insertions, file.deletions),
    file.decision === null ? '-' : paintState(file.decision),
    showAll(severalRoots ? `${file.root}: ${name}` : name),
    remarks(file),
  ]
}

export function renderChangeset(changeset: Changeset): string {
  const { id, state, roots, files, dropped, insertions, deletions } = changeset
  const heading = `${id}  ${paintState(state)}  ${plural(files.length, 'change')}, ${counts(insertions, deletions)}`
  const parts = [heading, ...roots.map((root) => paint('dim', showAll(root)))]
  if (files.length > 0) {
    const rows = files.map((file) => renderFile(file, roots.length > 1))
    parts.push('', renderTable(['', 'lines', 'decision', 'path', ''], rows))
  }
  if (dropped.length > 0) {
    parts.push('', 'seen and left behind:')
    for (const { path, why } of dropped) parts.push(`  ${showAll(path)}: ${showAll(why)}`)
  }
  return [...parts, ...renderConcerns(changeset)].join('\n')
}

type Tip = NonNullable<Changeset['commits']>[number]

/** What a reviewer should know besides: who is asked, where an apply stopped, what changed again, who else is at it. */
function renderConcerns({ id, escalated, stopped, overlaps, files, commits }: Changeset): string[] {
  const lines: string[] = []
  const whereOf = ({ folder, submodule }: Tip) =>
    [folder, submodule].map((each) => (each === undefined ? '' : ` in ${showAll(each)}`)).join('')
  const isLeft = ({ ref }: Tip) => ref.startsWith('left/')
  for (const tip of (commits ?? []).filter((each) => !isLeft(each))) {
    const name = tip.ref === 'HEAD' ? 'a detached HEAD' : showAll(tip.ref.replace(/^refs\/(heads\/)?/, ''))
    lines.push(`the agent made commits: ${name}${whereOf(tip)} is at ${tip.oid.slice(0, 12)}`)
  }
  const left = (commits ?? []).filter(isLeft).map((tip) => `${tip.oid.slice(0, 12)}${whereOf(tip)}`)
  if (left.length > 0)
    lines.push(`the agent left commits on no branch, and they are kept: ${left.join(', ')}`)
  if (escalated != null) lines.push(paint('red', `a person is asked to look: ${showAll(escalated)}`))
  if (stopped != null)
    lines.push(`  settle it: orangery changeset settle ${id} mine|theirs --path ${showAll(stopped.path)}`)
  if (files.some((file) => file.reopened === true))
    lines.push(`what changed since it was decided on: orangery changeset diff ${id} --inter`)
  for (const { id: other, paths } of overlaps ?? []) {
    const more = paths.length > 3 ? ` and ${paths.length - 3} more` : ''
    lines.push(`${other} is open too and touches ${paths.slice(0, 3).map(showAll).join(', ')}${more}`)
  }
  return lines.length === 0 ? [] : ['', ...lines]
}

export function renderGlimpses(glimpses: readonly Glimpse[]): string {
  if (glimpses.length === 0) return 'nothing is different'
  const severalRoots = new Set(glimpses.map(({ root }) => root)).size > 1
  const size = (bytes: number | null) => (bytes === null ? '-' : String(bytes))
  return renderTable(
    ['', 'bytes before', 'after', 'path'],
    glimpses.map(({ root, path, change, size_before, size_after }) => [
      letters[change],
      size(size_before),
      size(size_after),
      showAll(severalRoots ? `${root}: ${path}` : path),
    ]),
  )
}

const lineTones = [
  [/^(diff |index |--- |\+\+\+ |new file|deleted file|rename |similarity |old mode|new mode)/, 'bold'],
  [/^@@/, 'cyan'],
  [/^\+/, 'green'],
  [/^-/, 'red'],
] as const

/** A diff for eyes: coloured, and unable to do anything to the terminal. */
export function renderDiff(text: string): string {
  const lines = showLines(text).split('\n')
  return lines
    .map((line) => {
      const tone = lineTones.find(([pattern]) => pattern.test(line))
      return tone === undefined || line === '' ? line : paint(tone[1], line)
    })
    .join('\n')
}

export function renderPreview({ lands, skipped, conflicts, settled, merged }: Conflicts): string {
  const severalRoots = new Set(lands.map(({ root }) => root)).size > 1
  const lines = lands.map(({ root, path }) => {
    const name = showAll(severalRoots ? `${root}: ${path}` : path)
    return `  ${paint('green', 'lands')}     ${name}${merged.includes(path) ? ', merged with your changes' : ''}`
  })
  for (const { path, why } of conflicts)
    lines.push(`  ${paint('red', 'conflict')}  ${showAll(path)}: ${showAll(why)}`)
  for (const { path, choice, by } of settled)
    lines.push(`  ${paint('cyan', 'settled')}   ${showAll(path)}: ${choice}, chosen by ${showAll(by)}`)
  for (const { path, why } of skipped)
    lines.push(`  ${paint('yellow', 'stays')}     ${showAll(path)}: ${showAll(why)}`)
  return lines.length === 0 ? 'nothing would land' : lines.join('\n')
}

export function renderWaiting(landings: readonly WaitingLanding[]): string {
  if (landings.length === 0) return 'No landing waits.'
  const rows = landings.map(({ id, kind, by, asked_at, waits_for, problem }) => [
    id,
    kind,
    showAll(by),
    asked_at,
    problem === null ? waits_for.join(', ') : paint('red', showAll(problem)),
  ])
  return renderTable(['id', 'what', 'asked by', 'since', 'waits for'], rows)
}

export function renderApplied(result: ApplyResult, verb: string): string {
  const { id, state, applied, skipped, waits_for, commit } = result
  if (waits_for !== undefined) {
    const agents = waits_for.length === 0 ? 'the agent on its folders' : waits_for.join(', ')
    const what = verb === 'applied' ? 'lands' : `is ${verb}`
    return `${id} ${what} when ${agents} has ended; see: orangery changeset waiting`
  }
  if (applied.length === 0 && skipped.length === 0 && result.notes === undefined) {
    return `${id} is ${paintState(state)}${state === 'applied' ? ' already' : ''}: nothing is left to do`
  }
  const lines = [`${id} is ${paintState(state)}: ${plural(applied.length, 'file')} ${verb}`]
  const severalRoots = new Set(applied.map(({ root }) => root)).size > 1
  for (const { root, path } of applied) {
    lines.push(`  ${paint('green', verb)}  ${showAll(severalRoots ? `${root}: ${path}` : path)}`)
  }
  for (const { path, why } of skipped) {
    lines.push(`  ${paint('yellow', 'skipped')}  ${showAll(path)}: ${showAll(why)}`)
  }
  for (const { root, branch, oid } of result.commits ?? (commit === undefined ? [] : [commit])) {
    lines.push(`  ${paint('green', 'commit')}  ${oid.slice(0, 12)} on ${showAll(branch)} in ${showAll(root)}`)
  }
  return lines.join('\n')
}
