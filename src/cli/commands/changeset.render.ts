import type { ChangedFile, Changeset, ChangeKind, Glimpse, Hunk } from '../../shared/changeset.ts'
import type { ChangesetSummary } from '../../shared/dispatch.ts'
import { namesOf } from '../../shared/namesOf.ts'
import { paint, paintState } from '../terminal/style.ts'
import { renderTable, shorten } from '../terminal/table.ts'
import { showAll, showLines } from '../../shared/visible.ts'
import { age, plural, size } from '../terminal/words.ts'
import { foldIgnored, type Fold } from './changeset.ignored.ts'

const counts = (insertions: number, deletions: number) =>
  `${paint('green', `+${insertions}`)} ${paint('red', `-${deletions}`)}`

export function renderChangesets(changesets: readonly ChangesetSummary[]): string {
  if (changesets.length === 0) return 'no changesets'
  const isFlagged = changesets.some(({ escalated }) => escalated != null)
  return renderTable(
    ['id', 'state', 'files', 'lines', 'changed', 'project', ...(isFlagged ? ['needs a person'] : [])],
    changesets.map(({ id, state, files, insertions, deletions, escalated, roots = [], updated_at }) => [
      id,
      paintState(state),
      String(files),
      counts(insertions, deletions),
      updated_at === undefined ? '-' : age(updated_at),
      roots.map(showAll).join(', '),
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

/** Where hunks were decided on one by one, how many of them. */
function decisionOn({ decision, hunks }: ChangedFile): string {
  const decided = hunks.filter((hunk) => hunk.decision !== null).length
  if (decision !== null) return paintState(decision)
  return decided === 0 ? '-' : `${decided} of ${plural(hunks.length, 'hunk')}`
}

/** The start of a command: at a script of many lines nobody looks again at every hunk. `--json` has all of it. */
function atAGlance(title: string): string {
  const [first = '', ...more] = title.split('\n')
  return shorten(showAll(more.length > 0 ? `${first} …` : first), 60)
}

/** What was said of a file, and its hunks: those of a file that is decided on in part, or of every one. */
function renderReview(file: ChangedFile, isWanted: boolean): string[] {
  const { path, hunks, decision, comments = [] } = file
  const isInPart = decision === null && hunks.some((hunk) => hunk.decision !== null)
  const shown = isWanted || isInPart ? hunks : []
  if (shown.length === 0 && comments.length === 0) return []
  const by = ({ provenance }: Hunk) =>
    provenance == null ? '' : `, by ${atAGlance(provenance.title)}${provenance.certain ? '' : ' (likely)'}`
  return [
    `${showAll(path)}:`,
    ...shown.map((hunk) => {
      const verdict = hunk.decision === null ? '-' : paintState(hunk.decision)
      return `  hunk ${hunk.id}  ${verdict}  ${showAll(hunk.header)}${by(hunk)}`
    }),
    ...comments.map(({ text, by: author, hunk, outdated }) => {
      const where = hunk === null ? '' : ` on hunk ${hunk}`
      return `  ${showAll(author)}${where}${outdated ? ' (before it changed)' : ''}: ${showAll(text)}`
    }),
  ]
}

function renderFile(file: ChangedFile, severalRoots: boolean): string[] {
  const name = file.from_path === undefined ? file.path : `${file.from_path} → ${file.path}`
  return [
    letters[file.change],
    counts(file.insertions, file.deletions),
    decisionOn(file),
    showAll(severalRoots ? `${file.root}: ${name}` : name),
    remarks(file),
  ]
}

const totals = (files: readonly ChangedFile[]): [number, number] => [
  files.reduce((sum, { insertions }) => sum + insertions, 0),
  files.reduce((sum, { deletions }) => sum + deletions, 0),
]

function renderFold({ root, folder, bytes, members }: Fold<ChangedFile>, severalRoots: boolean): string[] {
  const [first] = members
  const isAlike = members.every(({ change }) => change === first?.change)
  const decision = first?.decision ?? null
  const name = `${folder === '' ? '.' : folder}/`
  return [
    first !== undefined && isAlike ? letters[first.change] : '',
    counts(...totals(members)),
    decision === null ? '-' : paintState(decision),
    showAll(severalRoots ? `${root}: ${name}` : name),
    paint('gray', `${plural(members.length, 'ignored file')}, ${size(bytes)}`),
  ]
}

export type ShownChangeset = { readonly ignored?: boolean; readonly hunks?: boolean }

export function renderChangeset(
  changeset: Changeset,
  { ignored = false, hunks = false }: ShownChangeset = {},
): string {
  const { id, state, roots, files, dropped } = changeset
  const { others, folds } = ignored
    ? { others: files, folds: [] }
    : foldIgnored(files, files, ({ decision }) => decision ?? '')
  const folded = files.length - others.length
  const apart = folded === 0 ? '' : `, and ${plural(folded, 'ignored file')}`
  const heading = `${id}  ${paintState(state)}  ${plural(others.length, 'change')}, ${counts(...totals(others))}${apart}`
  const parts = [heading, ...roots.map((root) => paint('dim', showAll(root)))]
  if (files.length > 0) {
    const rows = [
      ...others.map((file) => renderFile(file, roots.length > 1)),
      ...folds.map((fold) => renderFold(fold, roots.length > 1)),
    ]
    parts.push('', renderTable(['', 'lines', 'decision', 'path', ''], rows))
  }
  if (folded > 0) parts.push('', `each ignored file: orangery changeset show ${id} --ignored`)
  const review = others.flatMap((file) => renderReview(file, hunks))
  if (review.length > 0) parts.push('', ...review)
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
  for (const { id: other, paths, more } of overlaps ?? [])
    lines.push(`${other} is open too and touches ${namesOf(paths.map(showAll), 3, more)}`)
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
