import type { ApplyResult, MadeCommit } from '../../shared/changeset.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { ChangesetRecord } from '../base/changesetRecords.ts'
import type { Base } from './bases.ts'
import { depthOf, namedPath } from './bytePath.ts'
import type { Conflict } from './conflicts.ts'
import { Journals, type Journal } from './journal.ts'
import { homesOf } from './classifyEntries.ts'
import { isAt } from './isAt.ts'
import { ledOut, neighboursOf } from './ledOut.ts'
import { entryKey, type Entry, type Side } from './manifest.ts'
import { BlobReader } from './objects.ts'
import { refuseConflicts } from './planApply.ts'
import { rebaseManifest } from './rebase.ts'
import { LockedFolders } from './scan.ts'
import { orderSteps, type Operation, type Step } from './steps.ts'
import { carryOut, newJournal, type ApplyContext } from './transaction.ts'
import { Tree } from './tree.ts'
import { readView, type View } from './view.ts'

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
  const gitDir = context.layout.objects(record.repoId)
  const steps = await planUndo(context, done, record, gitDir)
  const touched = new Set(done.bases.map(([key]) => key))
  const returning = done.previous.entries.filter((entry) => touched.has(entryKey(entry)))
  const entries = new Map(returning.map((entry) => [entryKey(entry), entry]))
  const before = new Map(
    done.bases_before.map(([key, base]): [string, Base] => {
      const entry = entries.get(key)
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
  // As the apply told it: one for each file a reviewer knows, be it an empty folder or under two names.
  const kept = new Set(done.kept)
  const isBack = (entry: Entry) => touched.has(entryKey(entry)) && !kept.has(entryKey(entry))
  const applied = (await readView(gitDir, '', done.previous)).files
    .flatMap(({ entry, from }) => [entry, ...(from === null ? [] : [from])].find(isBack) ?? [])
    .map(({ root, path }) => ({ root, ...namedPath(path) }))
  const notes = (done.commits ?? []).map(staysBehind)
  return { id: record.id, state: 'review', applied, skipped: [], ...(notes.length === 0 ? {} : { notes }) }
}

/** A branch is the user's, and others may have built on it. */
function staysBehind({ root, branch, oid }: MadeCommit): string {
  const short = oid.slice(0, 12)
  return `the files are as they were; the commit ${short} stays on ${branch}: \`git -C ${root} revert ${short}\` takes it back there`
}

/** The way back, provided that everything still is as the apply left it. */
async function planUndo(
  context: ApplyContext,
  done: Journal,
  record: ChangesetRecord,
  gitDir: string,
): Promise<Step[]> {
  const ends = new Map<string, { first: Operation; last: Operation }>()
  for (const operation of done.operations) {
    if (operation.left === true) continue
    const key = entryKey(operation)
    ends.set(key, { first: ends.get(key)?.first ?? operation, last: operation })
  }
  const steps: Step[] = []
  const conflicts: Conflict[] = []
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
  for (const { first, last } of ends.values()) {
    const tree = byRoot.get(first.root) ?? trees.use(new Tree(first.root, context.disk))
    byRoot.set(first.root, tree)
    const { root, path } = first
    const local = await tree.lstat(path)
    const mode =
      done.modeless?.includes(root) === true ? undefined : (modes.get(entryKey(first)) ?? local?.mode)
    const moved = hasOtherMode(mode, last.after) || !(await isAt(tree, path, last.after))
    if (moved && (hasOtherMode(mode, first.before) || !(await isAt(tree, path, first.before)))) {
      const isFolder = last.after?.kind === 'directory' || first.before?.kind === 'directory'
      if (isFolder && local === null) continue
      const why = 'you changed it after the apply'
      conflicts.push({ root, ...namedPath(path), why, anchor: '', choices: [] })
    } else if (moved) continue
    else {
      const { owner } = first
      steps.push({ root, path, before: last.after, after: first.before, identity: null, owner })
    }
  }
  refuseConflicts(
    'undo',
    done.id,
    conflicts.length > 0 ? conflicts : await leadingOut(context, steps, record, gitDir),
  )
  return steps
}

/** A link that has come since may lead out by one that comes back. */
async function leadingOut(
  { disk, records }: ApplyContext,
  steps: readonly Step[],
  record: ChangesetRecord,
  gitDir: string,
): Promise<Conflict[]> {
  const homes = homesOf(record.workspace)
  await using blobs = new BlobReader(gitDir)
  await using held = new AsyncDisposableStack()
  const roots = new Set([...homes.map(({ name }) => name), ...steps.map(({ root }) => root)])
  const trees = new Map([...roots].map((root) => [root, held.use(new Tree(root, disk))]))
  const found = await ledOut(
    new Map(steps.map((step) => [entryKey(step), step])),
    { trees, homes, blobs },
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
