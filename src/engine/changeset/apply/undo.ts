import type { ApplyResult } from '../../../shared/changeset.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import { readBases } from '../capture/bases.ts'
import { depthOf, namedPath, type BytePath } from '../bytePath.ts'
import { commitsLeft } from '../commits/commitsLeft.ts'
import type { Conflict } from './conflicts.ts'
import { Journals, type Journal } from './journal.ts'
import { homesOf } from '../classify/classifyEntries.ts'
import { isAt } from './isAt.ts'
import { landedSince, type LandedSince } from './landedSince.ts'
import { ledOut, neighboursOf } from '../classify/ledOut.ts'
import { entryKey, sameContent, sameSide, type Entry, type Side } from '../manifest.ts'
import { BlobReader } from '../objects/objects.ts'
import { placeOf } from '../review/overlaps.ts'
import { refuseConflicts } from './planApply.ts'
import { rebaseManifest } from './rebase.ts'
import { refuseGoneRoots } from './refusals.ts'
import { clockSlackMs, LockedFolders } from '../capture/scan.ts'
import { orderSteps, type Operation, type Step } from './steps.ts'
import { together } from './together.ts'
import { carryOut, newJournal, type ApplyContext } from './transaction.ts'
import { Tree } from '../objects/tree.ts'
import { readView, type FileView, type View } from '../review/view.ts'

/** Takes back all that has landed, as one; `onlyLast`: what the last apply landed. */
export async function undoChangeset(
  context: ApplyContext,
  record: ChangesetRecord,
  current: View,
  by: string,
  onlyLast: boolean,
): Promise<ApplyResult> {
  const all = context.records
    .applies(record.id)
    .filter((apply) => apply.kind === 'apply' && apply.state === 'committed')
  const landed = all.slice(onlyLast ? -1 : 0)
  if (landed.length === 0) {
    throw new OrangeryError(
      'changeset.nothing_to_undo',
      `changeset ${record.id}: nothing of it has been applied`,
      {
        kind: 'refused',
        hint: 'Only what has landed can be taken back. See its state with `orangery changeset list`.',
      },
    )
  }
  const journals = new Journals(context.layout.changeset(record.repoId, record.id), context.disk)
  const done: Journal[] = []
  for (const { transaction } of landed) done.push(await journals.readDone(transaction))
  const gitDir = context.layout.objects(record.repoId)
  const steps = await planUndo(context, done, record, gitDir)
  const { before, since, landed: returning } = together(done)
  const manifest = await rebaseManifest(current.manifest, before, returning, gitDir, context.disk)
  const journal = newJournal(record, by, {
    kind: 'undo',
    undoes: landed.map(({ transaction }) => transaction),
    operations: [...orderSteps(steps)],
    manifest,
    previous: current.manifest,
    bases: [...before],
    bases_before: [...since],
    outcome: 'review',
    why: onlyLast ? 'the last apply was undone' : 'all that had landed was undone',
  })
  await carryOut(context, record, journal)
  const applied = new Map<string, Entry>()
  for (const each of done) {
    for (const { entry, from } of await filesOf(gitDir, each)) {
      // An earlier apply told a part of it under its old name.
      if (from !== null) applied.delete(entryKey(from))
      applied.set(entryKey(entry), entry)
    }
  }
  const notes = await commitsLeft(done)
  if (landed.length < all.length)
    notes.push(
      `what was applied before that stays; \`orangery changeset undo ${record.id}\` takes it back too`,
    )
  return {
    id: record.id,
    state: 'review',
    applied: [...applied.values()].map(({ root, path }) => ({ root, ...namedPath(path) })),
    skipped: [],
    ...(notes.length === 0 ? {} : { notes }),
  }
}

/** As the apply told it: one for each file a reviewer knows, be it an empty folder or under two names. */
async function filesOf(
  gitDir: string,
  journal: Journal,
): Promise<readonly Pick<FileView, 'entry' | 'from'>[]> {
  const { bases, kept = [], operations, previous } = journal
  const landed = new Set(bases.map(([key]) => key))
  const touched = new Set(landed)
  const left = operations.filter((operation) => operation.left === true).map(entryKey)
  for (const key of [...kept, ...left]) touched.delete(key)
  const changed = new Set(operations.map(entryKey).filter((key) => touched.has(key)))
  const { files } = await readView(gitDir, '', previous)
  return files.flatMap(({ entry, from }) => {
    if (touched.has(entryKey(entry))) return [{ entry, from }]
    // Where he kept his own under the new name the old one may still have gone, by a choice of its own.
    const isOld = landed.has(entryKey(entry)) ? changed : touched
    return from !== null && isOld.has(entryKey(from)) ? [{ entry: from, from: null }] : []
  })
}

/** The way back, provided that everything still is as the last apply left it, and was so in between. */
async function planUndo(
  context: ApplyContext,
  done: readonly Journal[],
  record: ChangesetRecord,
  gitDir: string,
): Promise<Step[]> {
  const modeless = new Set(done.flatMap((each) => each.modeless ?? []))
  const ends = endsOf(done, modeless)
  await refuseGoneRoots(
    [...ends.values()].map(({ last }) => last.root),
    context.disk,
  )
  const steps: Step[] = []
  const conflicts: Conflict[] = []
  let others: ReadonlyMap<BytePath, LandedSince> | undefined
  /** What has to be undone before the first of them can be. */
  let before: DispatchId | undefined
  // An agent's folder of mode 000 has landed as such: we look into it as the capture did.
  await using locked = new LockedFolders(context.disk)
  const folders = [...ends.values()].map(({ last }) => last).filter(isLockedFolder)
  const modes = new Map<string, bigint>()
  for (const { root, path } of folders.toSorted((a, b) => depthOf(a.path) - depthOf(b.path))) {
    await using tree = new Tree(root, context.disk)
    const folder = await tree.lstat(path)
    if (folder?.isDirectory() !== true) continue
    modes.set(entryKey({ root, path }), folder.mode)
    await locked.open(root, path)
  }
  await using trees = new AsyncDisposableStack()
  const byRoot = new Map<string, Tree>()
  for (const { first, last, isBroken } of ends.values()) {
    if (isBackAlready(first, last)) continue
    const tree = byRoot.get(first.root) ?? trees.use(new Tree(first.root, context.disk))
    byRoot.set(first.root, tree)
    const { root, path } = first
    const local = await tree.lstat(path)
    const mode = modeless.has(root) ? undefined : (modes.get(entryKey(first)) ?? local?.mode)
    const moved = hasOtherMode(mode, last.after) || !(await isAt(tree, path, last.after))
    if (moved && (hasOtherMode(mode, first.before) || !(await isAt(tree, path, first.before)))) {
      const isFolder = last.after?.kind === 'directory' || first.before?.kind === 'directory'
      if (isFolder && local === null) continue
      others ??= await landedSince(context, record, done.at(-1)?.at ?? '')
      const other = others.get(placeOf(first))
      const isOther =
        other !== undefined && !hasOtherMode(mode, other.after) && (await isAt(tree, path, other.after))
      if (isOther && conflicts.length === 0) before = other.id
      const why = `${isOther ? `changeset ${other.id}` : 'you'} changed it after the apply`
      conflicts.push({ root, ...namedPath(path), why, anchor: '', choices: [] })
    } else if (moved) continue
    else if (isBroken) {
      const why = 'you changed it between two applies; `--last` takes only the last one back'
      conflicts.push({ root, ...namedPath(path), why, anchor: '', choices: [] })
    } else {
      const { owner } = first
      steps.push({ root, path, before: last.after, after: first.before, identity: null, owner })
    }
  }
  refuseConflicts(
    'undo',
    record.id,
    conflicts.length > 0
      ? conflicts
      : await leadingOut(context, steps, record, gitDir, Date.parse(done[0]?.at ?? '')),
    before,
  )
  return steps
}

/** A path's way through the applies. `isBroken`: somebody else had a hand in it between two of them. */
type Ends = { readonly first: Operation; readonly last: Operation; readonly isBroken: boolean }

function endsOf(done: readonly Journal[], modeless: ReadonlySet<string>): ReadonlyMap<string, Ends> {
  const ends = new Map<string, Ends>()
  for (const operation of done.flatMap(({ operations }) => operations)) {
    if (operation.left === true) continue
    const key = entryKey(operation)
    const known = ends.get(key)
    const isBroken = known !== undefined && !follows(known.last, operation, modeless.has(operation.root))
    ends.set(key, {
      first: known?.first ?? operation,
      last: operation,
      isBroken: isBroken || known?.isBroken === true,
    })
  }
  return ends
}

/** A folder may have come or gone in between: there is nothing of it that would be lost. */
function follows({ after }: Operation, { before }: Operation, isModeless: boolean): boolean {
  const one = after ?? before
  if ((after === null || before === null) && (one === null || one.kind === 'directory')) return true
  const hasOther = before !== null && 'mode' in before && hasOtherMode(BigInt(before.mode), after)
  return sameContent(after, before) && (isModeless || !hasOther)
}

/** Set-id bits that an agent gave have not landed. */
function isBackAlready({ before }: Operation, { after }: Operation): boolean {
  return sameSide(before, after) && !(before !== null && 'mode' in before && (before.mode & 0o7000) !== 0)
}

/** A link that has come since may lead out by one that comes back. */
async function leadingOut(
  { disk, records, layout }: ApplyContext,
  steps: readonly Step[],
  record: ChangesetRecord,
  gitDir: string,
  appliedMs: number,
): Promise<Conflict[]> {
  // Where the clock was set, no file tells by its time whether it has come since.
  const { clockStepped } = await readBases(layout.changeset(record.repoId, record.id))
  const past = clockStepped ? {} : { backToMs: appliedMs - clockSlackMs }
  const homes = homesOf(record.workspace)
  await using blobs = new BlobReader(gitDir)
  await using held = new AsyncDisposableStack()
  const roots = new Set([...homes.map(({ name }) => name), ...steps.map(({ root }) => root)])
  const trees = new Map([...roots].map((root) => [root, held.use(new Tree(root, disk))]))
  const found = await ledOut(
    new Map(steps.map((step) => [entryKey(step), step])),
    { trees, homes, blobs, ...past },
    neighboursOf(records, record),
  )
  return found.map(({ link: { root, path } }) => {
    const why = 'it would lead out of its root by what comes back'
    return { root, ...namedPath(path), why, anchor: '', choices: [] }
  })
}

function isLockedFolder({ after }: Operation): boolean {
  return after?.kind === 'directory' && (after.mode & 0o700) !== 0o700
}
function hasOtherMode(mode: bigint | undefined, side: Side | null): boolean {
  const isModal = side?.kind === 'file' || side?.kind === 'directory'
  return isModal && mode !== undefined && Number(mode & 0o777n) !== (side.mode & 0o777)
}
