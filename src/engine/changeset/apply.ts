import { createHash, randomBytes } from 'node:crypto'
import type { ApplyResult, ChangesetState } from '../../shared/changeset.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { ChangesetRecord, ChangesetRecords } from '../base/changesetRecords.ts'
import type { Layout } from '../base/paths.ts'
import { readBases, writeBases, type Base } from './bases.ts'
import { depthOf, toText } from './bytePath.ts'
import { LocalFiles, settle, type Conflict, type MergeTools } from './conflicts.ts'
import type { Disk } from './disk.ts'
import { Journals, type Journal } from './journal.ts'
import { isAt, Landing, NeitherOldNorNew } from './land.ts'
import { entryKey, type Side } from './manifest.ts'
import { BlobReader } from './objects.ts'
import { PackWriter } from './packWriter.ts'
import { withHunks } from './patch.ts'
import { adoptBases, rebaseManifest } from './rebase.ts'
import { SavedManifests } from './saved.ts'
import { LockedFolders } from './scan.ts'
import { selectTargets, type SelectOptions, type Skip, type Target } from './selection.ts'
import { orderSteps, type Operation, type Step } from './steps.ts'
import { Tree } from './tree.ts'
import { Decisions, readView, type View } from './view.ts'

export type ApplyContext = {
  readonly layout: Layout
  readonly records: ChangesetRecords
  readonly disk: Disk
}
export type Landed = { readonly target: Target; readonly wanted: Side | null }
export type ApplyPlan = {
  readonly steps: readonly Step[]
  readonly landed: readonly Landed[]
  readonly conflicts: readonly Conflict[]
  readonly skipped: readonly Skip[]
  /** Paths whose own changes and the agent's were woven together. */
  readonly merged: readonly string[]
}

/** Finds out what landing would do, without touching an original. */
export async function planApply(
  context: ApplyContext,
  record: ChangesetRecord,
  view: View,
  options: SelectOptions,
): Promise<ApplyPlan> {
  const gitDir = context.layout.objects(record.repoId)
  const decisions = new Decisions(context.records.decisions(record.id))
  const { targets, skipped } = selectTargets(view, decisions, options)
  const going = new Set(
    targets
      .filter(
        ({ entry, wanted }) =>
          wanted.kind === 'side' && entry.base !== null && wanted.side?.kind !== entry.base.kind,
      )
      .map(({ entry }) => entryKey(entry)),
  )
  const writer = new PackWriter(gitDir, context.disk)
  await using blobs = new BlobReader(gitDir)
  const tools: MergeTools = {
    blobs,
    writer,
    disk: context.disk,
    resolutions: context.records.resolutions(record.id),
  }
  const trees = new Map(view.manifest.roots.map((root) => [root.path, new Tree(root.path, context.disk)]))
  const files = new Map([...trees].map(([root, tree]) => [root, new LocalFiles(tree, writer)]))
  const steps: Step[] = []
  const landed: Landed[] = []
  const conflicts: Conflict[] = []
  const merged: string[] = []
  try {
    for (const target of targets) {
      const locals = files.get(target.entry.root)
      if (locals === undefined) continue
      const wanted = await wantedSide(target, blobs, writer)
      const local = await locals.read(target.entry.path, target.entry.base)
      const outcome = await settle(target, wanted, local, going, tools)
      if (outcome.kind === 'conflict') conflicts.push(outcome.conflict)
      else landed.push({ target, wanted })
      if (outcome.kind === 'step') {
        steps.push(outcome.step)
        if (outcome.merged) merged.push(toText(target.entry.path))
      }
    }
    conflicts.push(...(await occupiedFolders(steps, trees)))
  } finally {
    for (const tree of trees.values()) await tree[Symbol.asyncDispose]()
  }
  await writer.flush()
  return { steps, landed, conflicts, skipped, merged }
}

async function wantedSide(target: Target, blobs: BlobReader, writer: PackWriter): Promise<Side | null> {
  const { wanted } = target
  if (wanted.kind === 'side') return wanted.side
  const content = withHunks(
    await blobs.read(wanted.from.kind === 'file' ? wanted.from.oid : ''),
    wanted.hunks,
  )
  const sha256 = createHash('sha256').update(content).digest('hex')
  return {
    kind: 'file',
    mode: wanted.mode,
    size: content.length,
    sha256,
    oid: await writer.add('blob', content),
  }
}

/** A folder that becomes a file must hold nothing but what goes with it. */
async function occupiedFolders(
  steps: readonly Step[],
  trees: ReadonlyMap<string, Tree>,
): Promise<Conflict[]> {
  const goingAway = new Set(
    steps.filter((step) => step.after === null).map((step) => `${step.root}\0${step.path}`),
  )
  const found: Conflict[] = []
  for (const step of steps) {
    if (step.before?.kind !== 'directory' || step.after === null || step.after.kind === 'directory') continue
    const names = (await trees.get(step.root)?.list(step.path)) ?? []
    const stays = names.find(
      (name) => !goingAway.has(`${step.root}\0${step.path}/${name.toString('latin1')}`),
    )
    if (stays === undefined) continue
    const why = `you have ${stays.toString('utf8')} in this folder, and the agent made it a ${step.after.kind}`
    found.push({ root: step.root, path: toText(step.path), why, anchor: '', choices: ['mine'] })
  }
  return found
}

export async function applyChangeset(
  context: ApplyContext,
  record: ChangesetRecord,
  view: View,
  options: SelectOptions,
  by: string,
): Promise<{ result: ApplyResult; landed: readonly Landed[] }> {
  const plan = await planApply(context, record, view, options)
  refuseConflicts('apply', plan.conflicts)
  if (plan.landed.length === 0) {
    if (options.all) {
      const result = { id: record.id, state: record.state, applied: [], skipped: [...plan.skipped] }
      return { result, landed: [] }
    }
    throw new OrangeryError(
      'changeset.nothing_approved',
      `changeset ${record.id}: nothing in it is approved`,
      {
        kind: 'refused',
        hint: 'Decide on files or hunks first, or apply with --all.',
      },
    )
  }
  const gitDir = context.layout.objects(record.repoId)
  const changed = plan.landed.map(({ target, wanted }): [string, Base] => [
    entryKey(target.entry),
    { side: wanted, certain: true },
  ])
  const manifest = await rebaseManifest(view.manifest, new Map(changed), [], gitDir, context.disk)
  const rest = await readView(gitDir, '', manifest)
  const outcome = stateAfter(rest, new Decisions(context.records.decisions(record.id)))
  const bases = await readBases(context.layout.changeset(record.repoId, record.id))
  const journal = newJournal(record, by, {
    kind: 'apply',
    undoes: null,
    operations: [...orderSteps(plan.steps)],
    manifest,
    previous: view.manifest,
    bases: changed,
    bases_before: changed.map(([key]) => [key, bases.recorded.get(key) ?? null]),
    outcome,
    why: outcome === 'applied' ? 'all that was approved has landed' : 'part of it has landed',
  })
  await carryOut(context, record, journal)
  const applied = plan.landed
    .filter(({ target }) => target.file !== null)
    .map(({ target }) => ({ root: target.entry.root, path: toText(target.entry.path) }))
  const merged = plan.merged.length === 0 ? {} : { merged: [...plan.merged] }
  const result = { id: record.id, state: outcome, applied, skipped: [...plan.skipped], ...merged }
  return { result, landed: plan.landed }
}

/** Everything decided leaves `applied`; what nobody has said yes or no to keeps it in review. */
function stateAfter(rest: View, decisions: Decisions): ChangesetState {
  const isOpen = rest.files.some((file) => file.entry.refused === null && decisions.ofFile(file) !== 'reject')
  return isOpen ? 'review' : 'applied'
}

export async function undoChangeset(
  context: ApplyContext,
  record: ChangesetRecord,
  current: View,
  by: string,
): Promise<ApplyResult> {
  const last = context.records
    .applies(record.id)
    .findLast((apply) => apply.kind === 'apply' && apply.state === 'committed')
  if (last === undefined) {
    throw new OrangeryError(
      'changeset.nothing_to_undo',
      `changeset ${record.id}: nothing of it has been applied`,
      {
        kind: 'refused',
      },
    )
  }
  const folder = context.layout.changeset(record.repoId, record.id)
  const done = await new Journals(folder, context.disk).readDone(last.transaction)
  const steps = await planUndo(context, done)
  const gitDir = context.layout.objects(record.repoId)
  const touched = new Set(done.bases.map(([key]) => key))
  const returning = done.previous.entries.filter((entry) => touched.has(entryKey(entry)))
  const before = new Map(
    done.bases_before.map(([key, base]): [string, Base] => {
      const entry = returning.find((each) => entryKey(each) === key)
      return [key, base ?? { side: entry?.base ?? null, certain: entry?.certain ?? true }]
    }),
  )
  const manifest = await rebaseManifest(current.manifest, before, returning, gitDir, context.disk)
  const journal = newJournal(record, by, {
    kind: 'undo',
    undoes: last.transaction,
    operations: [...orderSteps(steps)],
    manifest,
    previous: current.manifest,
    bases: [...before],
    bases_before: done.bases,
    outcome: 'review',
    why: 'the apply was undone',
  })
  await carryOut(context, record, journal)
  const applied = steps
    .filter(({ before, after }) => (after ?? before)?.kind !== 'directory')
    .map((step) => ({ root: step.root, path: toText(step.path) }))
  return { id: record.id, state: 'review', applied, skipped: [] }
}

/** The way back, provided that everything still is as the apply left it. */
async function planUndo(context: ApplyContext, done: Journal): Promise<Step[]> {
  const ends = new Map<string, { first: Operation; last: Operation }>()
  for (const operation of done.operations) {
    const key = entryKey(operation)
    ends.set(key, { first: ends.get(key)?.first ?? operation, last: operation })
  }
  const steps: Step[] = []
  const conflicts: Conflict[] = []
  // An agent's folder of mode 000 has landed as such: we look into it as the capture did.
  await using locked = new LockedFolders(context.disk)
  const folders = [...ends.values()].map(({ last }) => last).filter(isLockedFolder)
  for (const { root, path } of folders.toSorted((a, b) => depthOf(a.path) - depthOf(b.path))) {
    await using tree = new Tree(root, context.disk)
    if ((await tree.lstat(path))?.isDirectory() === true) await locked.open(root, path)
  }
  for (const { first, last } of ends.values()) {
    await using tree = new Tree(first.root, context.disk)
    const { root, path } = first
    const local = await tree.lstat(path)
    const moved = !(await isAt(tree, path, last.after)) || hasOtherMode(local?.mode, last.after)
    if (moved && !(await isAt(tree, path, first.before))) {
      const isFolder = last.after?.kind === 'directory' || first.before?.kind === 'directory'
      if (isFolder && local === null) continue
      const why = 'you changed it after the apply'
      conflicts.push({ root, path: toText(path), why, anchor: '', choices: [] })
    } else if (moved) continue
    else steps.push({ root, path, before: last.after, after: first.before, identity: null })
  }
  refuseConflicts('undo', conflicts)
  return steps
}
function isLockedFolder({ after }: Operation): boolean {
  return after?.kind === 'directory' && (after.mode & 0o700) !== 0o700
}
function hasOtherMode(mode: bigint | undefined, side: Side | null): boolean {
  return side?.kind === 'file' && mode !== undefined && Number(mode & 0o777n) !== (side.mode & 0o777)
}

function newJournal(
  record: ChangesetRecord,
  by: string,
  rest: Omit<Journal, 'version' | 'transaction' | 'id' | 'state' | 'by' | 'at' | 'revision'>,
): Journal {
  const at = new Date().toISOString()
  const transaction = `${record.id}-${randomBytes(4).toString('hex')}`
  return {
    version: 1,
    transaction,
    id: record.id,
    state: 'staging',
    by,
    at,
    revision: record.revision,
    ...rest,
  }
}

/** Journal, stage, commit. A failure on the way leaves every original as it was. */
async function carryOut(context: ApplyContext, record: ChangesetRecord, journal: Journal): Promise<void> {
  const journals = new Journals(context.layout.changeset(record.repoId, record.id), context.disk)
  await using blobs = new BlobReader(context.layout.objects(record.repoId))
  await using landing = new Landing(journal.transaction, journal.operations, context.disk)
  let stage: Journal['state'] = 'staging'
  try {
    await journals.write(journal)
    await landing.stage(blobs)
    await journals.write({ ...journal, state: 'committing' })
    stage = 'committing'
    await landing.forward()
    await journals.write({ ...journal, state: 'committed' })
    stage = 'committed'
  } catch (error) {
    if (stage === 'committed') throw error
    try {
      if (stage === 'committing') await landing.back()
      await landing.clear()
      await journals.remove(journal.transaction)
    } catch (failure) {
      throw cutOff(journal, error, failure)
    }
    throw landingFailure(journal, error)
  }
  await finish(context, record, journal, landing).catch((error: unknown) => {
    const why = error instanceof Error ? error.message : String(error)
    throw new OrangeryError(
      'changeset.record_behind',
      `the ${journal.kind} of changeset ${record.id} has landed, but its record could not be written: ${why}`,
      { kind: 'cannot_create', hint: 'The record catches up on the next start or apply.', cause: error },
    )
  })
}

/** All originals are new: makes the records say so. May be done again after a crash. */
async function finish(
  context: ApplyContext,
  record: ChangesetRecord,
  journal: Journal,
  landing: Landing,
): Promise<void> {
  const folder = context.layout.changeset(record.repoId, record.id)
  const revision = await new SavedManifests(folder, context.disk).write(journal.manifest)
  const bases = await readBases(folder)
  adoptBases(bases, journal.bases)
  await writeBases(folder, bases, context.disk)
  const view = await readView(context.layout.objects(record.repoId), revision, journal.manifest)
  // When nothing remains, the record goes on saying how much landed.
  const { files, insertions, deletions } =
    journal.outcome === 'applied' ? record : { ...view, files: view.files.length }
  context.records.applied(
    record.id,
    {
      transaction: journal.transaction,
      kind: journal.kind,
      revision: journal.revision,
      at: journal.at,
      by: journal.by,
      state: 'committed',
      undoes: journal.undoes,
    },
    { revision, files, insertions, deletions },
    journal.outcome,
    journal.why,
  )
  await landing.clear()
  await new Journals(folder, context.disk).close(journal.transaction)
}

export async function hasOpenJournal(context: ApplyContext, record: ChangesetRecord): Promise<boolean> {
  const folder = context.layout.changeset(record.repoId, record.id)
  return (await new Journals(folder, context.disk).open()).length > 0
}

/** Brings what a crash cut off to its end: forward if it can, back if not. The caller holds the project's lock. */
export async function recoverChangeset(context: ApplyContext, record: ChangesetRecord): Promise<void> {
  const journals = new Journals(context.layout.changeset(record.repoId, record.id), context.disk)
  for (const journal of await journals.open()) {
    await using landing = new Landing(journal.transaction, journal.operations, context.disk)
    if (journal.state === 'staging') {
      await landing.clear()
      await journals.remove(journal.transaction)
      continue
    }
    if (journal.state === 'committing') {
      try {
        await landing.forward()
      } catch (error) {
        // A person has to look at such a file first; nothing else is touched until then.
        if (error instanceof NeitherOldNorNew) throw error
        await landing.back()
        await landing.clear()
        await journals.remove(journal.transaction)
        continue
      }
      await journals.write({ ...journal, state: 'committed' })
    }
    await finish(context, record, journal, landing)
  }
}

function refuseConflicts(what: 'apply' | 'undo', conflicts: readonly Conflict[]): void {
  const [first] = conflicts
  if (first === undefined) return
  const others = conflicts.length === 1 ? '' : ` (and ${conflicts.length - 1} more)`
  throw new OrangeryError('changeset.conflict', `cannot ${what}: ${first.path}: ${first.why}${others}`, {
    kind: 'busy',
    hint:
      what === 'apply'
        ? 'Nothing was changed. Choose per file: mine, theirs, both, or edit.'
        : 'Nothing was changed. Put the file back or keep the apply.',
    details: { conflicts },
  })
}

function landingFailure(journal: Journal, error: unknown): unknown {
  if (error instanceof OrangeryError) return error
  const why = error instanceof Error ? error.message : String(error)
  return new OrangeryError(
    'changeset.apply_failed',
    `cannot ${journal.kind} changeset ${journal.id}: ${why}`,
    {
      kind: 'cannot_create',
      hint: 'Nothing was changed.',
      cause: error,
    },
  )
}

/** Could neither go on nor back. The journal stays: the next start, or the next apply, brings it to its end. */
function cutOff(journal: Journal, error: unknown, failure: unknown): OrangeryError {
  const why = error instanceof Error ? error.message : String(error)
  return new OrangeryError(
    'changeset.apply_cut_off',
    `the ${journal.kind} of changeset ${journal.id} was cut off: ${why}`,
    {
      kind: 'busy',
      hint: 'Some files may be new and some old. Mend the cause, then try again: it is finished or taken back first.',
      cause: failure,
    },
  )
}
