import type { ApplyResult, Changeset, Conflicts } from '../../shared/changeset.ts'
import type { WaitingLanding } from '../../shared/invocation.ts'
import { showAll } from '../../shared/visible.ts'
import { paint, paintState } from '../terminal/style.ts'
import { renderTable } from '../terminal/table.ts'
import { plural, size } from '../terminal/words.ts'
import { foldIgnored, type Fold, type Placed } from './changeset.ignored.ts'

/** The changeset that something lands of, as it was before. */
export type Of = Pick<Changeset, 'roots' | 'files'>

const isSeveral = ({ roots }: Of) => roots.length > 1
const nameOf = (of: Of, { root, path }: Placed): string =>
  showAll(isSeveral(of) && root !== undefined ? `${root}: ${path}` : path)

function foldName(of: Of, { root, folder, bytes, members }: Fold<Placed>): string {
  const name = nameOf(of, { root, path: `${folder === '' ? '.' : folder}/` })
  return `${name}: ${plural(members.length, 'ignored file')}, ${size(bytes)}`
}

export function renderPreview({ lands, skipped, conflicts, settled, merged }: Conflicts, of: Of): string {
  const landing = foldIgnored(lands, of.files)
  const staying = foldIgnored(skipped, of.files, ({ why }) => why)
  const lines = landing.others.map((each) => {
    const how = merged.includes(each.path) ? ', merged with your changes' : ''
    return `  ${paint('green', 'lands')}     ${nameOf(of, each)}${how}`
  })
  for (const fold of landing.folds) lines.push(`  ${paint('green', 'lands')}     ${foldName(of, fold)}`)
  for (const each of conflicts)
    lines.push(`  ${paint('red', 'conflict')}  ${nameOf(of, each)}: ${showAll(each.why)}`)
  for (const { choice, by, ...each } of settled)
    lines.push(`  ${paint('cyan', 'settled')}   ${nameOf(of, each)}: ${choice}, chosen by ${showAll(by)}`)
  for (const each of staying.others)
    lines.push(`  ${paint('yellow', 'stays')}     ${nameOf(of, each)}: ${showAll(each.why)}`)
  for (const fold of staying.folds)
    lines.push(`  ${paint('yellow', 'stays')}     ${foldName(of, fold)}: ${whyOf(fold)}`)
  return lines.length === 0 ? 'nothing would land' : lines.join('\n')
}
const whyOf = ({ members }: Fold<Placed & { readonly why: string }>) => showAll(members[0]?.why ?? '')

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

export function renderApplied(result: ApplyResult, verb: string, of: Of): string {
  const { id, state, applied, skipped, waits_for, commit } = result
  const commits = result.commits ?? (commit === undefined ? [] : [commit])
  if (waits_for !== undefined) {
    const agents = waits_for.length === 0 ? 'the agent on its folders' : waits_for.join(', ')
    const what = verb === 'applied' ? 'lands' : `is ${verb}`
    return `${id} ${what} when ${agents} has ended; see: orangery changeset waiting`
  }
  const isNothing = applied.length + skipped.length + commits.length === 0
  if (isNothing && result.notes === undefined) {
    return `${id} is ${paintState(state)}${state === 'applied' ? ' already' : ''}: nothing is left to do`
  }
  const lines = [`${id} is ${paintState(state)}: ${plural(applied.length, 'file')} ${verb}`]
  const landed = foldIgnored(applied, of.files)
  const left = foldIgnored(skipped, of.files, ({ why }) => why)
  for (const each of landed.others) lines.push(`  ${paint('green', verb)}  ${nameOf(of, each)}`)
  for (const fold of landed.folds) lines.push(`  ${paint('green', verb)}  ${foldName(of, fold)}`)
  for (const each of left.others)
    lines.push(`  ${paint('yellow', 'skipped')}  ${nameOf(of, each)}: ${showAll(each.why)}`)
  for (const fold of left.folds)
    lines.push(`  ${paint('yellow', 'skipped')}  ${foldName(of, fold)}: ${whyOf(fold)}`)
  for (const { root, branch, oid } of commits) {
    lines.push(`  ${paint('green', 'commit')}  ${oid.slice(0, 12)} on ${showAll(branch)} in ${showAll(root)}`)
  }
  return lines.join('\n')
}
