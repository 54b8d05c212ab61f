import type { ApplyResult, ChangesetState, MadeCommit } from '../../../shared/changeset.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import { readBases, type Base } from '../capture/bases.ts'
import { namedPath } from '../bytePath.ts'
import { decisionsOf, type Decisions } from '../review/decisions.ts'
import { Journals, type Journal } from './journal.ts'
import { entryKey, type Manifest } from '../manifest.ts'
import { planApply, refuseConflicts, type ApplyPlan, type Landed } from './planApply.ts'
import { rebaseManifest } from './rebase.ts'
import { SavedManifests } from '../saved.ts'
import type { SelectOptions } from '../review/selection.ts'
import { orderSteps } from './steps.ts'
import { together } from './together.ts'
import { carryOut, newJournal, type ApplyContext } from './transaction.ts'
import { readView, type View } from '../review/view.ts'

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
    await recount(context, record)
    await around.follow?.()
    return { id: record.id, state: 'applied', applied: [], skipped: skipsOf(view, plan) }
  }
  if (plan.landed.length === 0 && !landsCommitsAlone(record, view)) {
    const isSaid = options.all || record.state === 'applied' || plan.held > 0
    if (isSaid || (await around.instead?.()) === true)
      return { id: record.id, state: record.state, applied: [], skipped: skipsOf(view, plan) }
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
  const whole = await wholeOf(context, record, view)
  const journal = newJournal(record, by, {
    kind: 'apply',
    ...(whole === null ? {} : { whole }),
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
    skipped: skipsOf(view, plan),
    ...merged,
  }
}

const committed = ({ records }: ApplyContext, { id }: ChangesetRecord) =>
  records.applies(id).filter(({ kind, state }) => kind === 'apply' && state === 'committed')

/** The changeset as if nothing of it had landed yet; null where nothing has. */
async function wholeOf(
  context: ApplyContext,
  record: ChangesetRecord,
  { manifest }: View,
): Promise<Manifest | null> {
  const journals = new Journals(context.layout.changeset(record.repoId, record.id), context.disk)
  const done: Journal[] = []
  for (const { transaction } of committed(context, record)) {
    // One that is lost keeps nothing from landing.
    const journal = await journals.readDone(transaction).catch(() => null)
    if (journal !== null) done.push(journal)
  }
  if (done.length === 0) return null
  const { before, landed } = together(done)
  return rebaseManifest(manifest, before, landed, context.layout.objects(record.repoId), context.disk)
}

/** The record says how much the changeset was, not how much of it was rejected at the end. */
async function recount(context: ApplyContext, record: ChangesetRecord): Promise<void> {
  const revision = committed(context, record).at(-1)?.revision
  if (revision === undefined) return
  const folder = context.layout.changeset(record.repoId, record.id)
  const manifest = await new SavedManifests(folder, context.disk).read(revision)
  const { files, ...view } = await readView(context.layout.objects(record.repoId), revision, manifest)
  const { insertions, deletions } = view
  context.records.recount(record.id, { files: files.length, insertions, deletions })
}

/** Part of it has landed, and the rest was said no to since: nothing is left to do but to say so. */
function isSettled(context: ApplyContext, record: ChangesetRecord, view: View): boolean {
  return (
    record.state === 'review' &&
    committed(context, record).length > 0 &&
    stateAfter(view, decisionsOf(context.records, record.id)) === 'applied'
  )
}

/** Commits that leave every file as it was are work too: nothing is to be decided, and they land. */
function landsCommitsAlone({ state }: ChangesetRecord, { manifest, files }: View): boolean {
  return (
    state === 'review' && manifest.commits.length > 0 && files.every(({ entry }) => entry.refused !== null)
  )
}

const isTold = ({ target, alone }: Landed) => target.file !== null || alone === true

/** What stays behind, also what was said yes to where the user chose his own. The root is told where there are several. */
export function skipsOf({ manifest }: View, { skipped, landed }: ApplyPlan): ApplyResult['skipped'] {
  const kept = landed
    .filter((each) => each.kept === true && (isTold(each) || each.target.apart === true))
    .map(({ target: { entry } }) => ({ ...entry, ...namedPath(entry.path), why: 'you kept your own' }))
  return [...skipped, ...kept].map(({ root, path, path_b64, why }) => ({
    ...(manifest.roots.length > 1 ? { root } : {}),
    path,
    ...(path_b64 === undefined ? {} : { path_b64 }),
    why,
  }))
}

/** What landed as a reviewer knows it: folders and former names come along unnamed. */
export function filesOf(landed: readonly Landed[]): ApplyResult['applied'] {
  return landed
    .filter((each) => each.kept !== true && isTold(each))
    .map(({ target }) => ({ root: target.entry.root, ...namedPath(target.entry.path) }))
}

/** Everything decided leaves `applied`; what nobody has said yes or no to keeps it in review. */
function stateAfter(rest: View, decisions: Decisions): ChangesetState {
  const isOpen = rest.files.some((file) => file.entry.refused === null && decisions.ofFile(file) !== 'reject')
  return isOpen ? 'review' : 'applied'
}
