import type { ApplyResult, ChangesetState, MadeCommit } from '../../shared/changeset.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { ChangesetRecord } from '../base/changesetRecords.ts'
import { readBases, type Base } from './bases.ts'
import { namedPath } from './bytePath.ts'
import { decisionsOf, type Decisions } from './decisions.ts'
import type { Journal } from './journal.ts'
import { entryKey } from './manifest.ts'
import { planApply, refuseConflicts, type Landed } from './planApply.ts'
import { rebaseManifest } from './rebase.ts'
import type { SelectOptions } from './selection.ts'
import { orderSteps } from './steps.ts'
import { carryOut, newJournal, type ApplyContext } from './transaction.ts'
import { readView, type View } from './view.ts'

export type Around = {
  /** Has a last look at what is about to land, and may refuse; says which commit is to be made of it. */
  readonly check?: (landed: readonly Landed[]) => Promise<Pick<Journal, 'commit' | 'planned'>>
  /** What is done once all files have landed, and by the next start where a crash prevents it. */
  readonly follow?: () => Promise<readonly MadeCommit[]>
  /** Whether there is something else to do where nothing lands. */
  readonly instead?: () => Promise<boolean>
}

export async function applyChangeset(
  context: ApplyContext,
  record: ChangesetRecord,
  view: View,
  options: SelectOptions,
  by: string,
  around: Around = {},
): Promise<ApplyResult> {
  const plan = await planApply(context, record, view, options)
  refuseConflicts('apply', record.id, plan.conflicts)
  if (plan.landed.length === 0 && isSettled(context, record, view)) {
    context.records.transition(record.id, ['review'], 'applied', by, 'all that did not land was rejected')
    await around.follow?.()
    return { id: record.id, state: 'applied', applied: [], skipped: [...plan.skipped] }
  }
  if (plan.landed.length === 0 && !landsCommitsAlone(record, view)) {
    const isSaid = options.all || record.state === 'applied' || plan.held > 0
    if (isSaid || (await around.instead?.()) === true)
      return { id: record.id, state: record.state, applied: [], skipped: [...plan.skipped] }
    throw new OrangeryError(
      'changeset.nothing_approved',
      `changeset ${record.id}: nothing in it is approved`,
      {
        kind: 'refused',
        hint: `Approve and apply all of it with \`orangery changeset apply ${record.id} --all\`, or decide first: \`orangery changeset decide ${record.id} --path PATH approve\`.`,
      },
    )
  }
  const commit = (await around.check?.(plan.landed)) ?? {}
  const gitDir = context.layout.objects(record.repoId)
  const changed = plan.landed.map(({ target, wanted }): [string, Base] => [
    entryKey(target.entry),
    { side: wanted, certain: true },
  ])
  const manifest = await rebaseManifest(view.manifest, new Map(changed), [], gitDir, context.disk)
  const rest = await readView(gitDir, '', manifest)
  const outcome = stateAfter(rest, decisionsOf(context.records, record.id))
  const bases = await readBases(context.layout.changeset(record.repoId, record.id))
  const journal = newJournal(record, by, {
    kind: 'apply',
    undoes: null,
    operations: [...orderSteps(plan.steps)],
    manifest,
    previous: view.manifest,
    bases: changed,
    bases_before: changed.map(([key]) => [key, bases.recorded.get(key) ?? null]),
    kept: plan.landed.flatMap(({ target, kept }) => (kept === true ? [entryKey(target.entry)] : [])),
    outcome,
    why: outcome === 'applied' ? 'all that was approved has landed' : 'part of it has landed',
    ...commit,
  })
  await carryOut(context, record, journal, around.follow)
  const merged = plan.merged.length === 0 ? {} : { merged: [...plan.merged] }
  return {
    id: record.id,
    state: outcome,
    applied: filesOf(plan.landed),
    skipped: [...plan.skipped, ...keptOf(plan.landed)],
    ...merged,
  }
}

/** Part of it has landed, and the rest was said no to since: nothing is left to do but to say so. */
function isSettled({ records }: ApplyContext, { id, state }: ChangesetRecord, view: View): boolean {
  return (
    state === 'review' &&
    records.applies(id).some((each) => each.kind === 'apply' && each.state === 'committed') &&
    stateAfter(view, decisionsOf(records, id)) === 'applied'
  )
}

/** Commits that leave every file as it was are work too: nothing is to be decided, and they land. */
function landsCommitsAlone({ state }: ChangesetRecord, { manifest, files }: View): boolean {
  return (
    state === 'review' && manifest.commits.length > 0 && files.every(({ entry }) => entry.refused !== null)
  )
}

/** Said yes to, and yet not landed, as the user chose. */
export function keptOf(landed: readonly Landed[]): ApplyResult['skipped'] {
  return landed
    .filter(({ target, kept }) => (target.file !== null || target.apart === true) && kept === true)
    .map(({ target }) => ({ ...namedPath(target.entry.path), why: 'you kept your own' }))
}

/** What landed as a reviewer knows it: folders and former names come along unnamed. */
export function filesOf(landed: readonly Landed[]): ApplyResult['applied'] {
  return landed
    .filter(({ target, kept }) => target.file !== null && kept !== true)
    .map(({ target }) => ({ root: target.entry.root, ...namedPath(target.entry.path) }))
}

/** Everything decided leaves `applied`; what nobody has said yes or no to keeps it in review. */
function stateAfter(rest: View, decisions: Decisions): ChangesetState {
  const isOpen = rest.files.some((file) => file.entry.refused === null && decisions.ofFile(file) !== 'reject')
  return isOpen ? 'review' : 'applied'
}
