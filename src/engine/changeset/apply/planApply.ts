import { createHash } from 'node:crypto'
import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import { namedPath, toText } from '../bytePath.ts'
import { homesOf } from '../classify/classifyEntries.ts'
import { isSureRename, readCopies } from '../capture/copies.ts'
import {
  LocalFiles,
  settle,
  settleFormer,
  type Answer,
  type Conflict,
  type Former,
  type MergeTools,
  type Outcome,
} from './conflicts.ts'
import { decisionsOf } from '../review/decisions.ts'
import { ownContent, Prospect, type Settled } from './holdBack.ts'
import { neighboursOf } from '../classify/ledOut.ts'
import { entryKey, sameSide, type Entry, type Side } from '../manifest.ts'
import { BlobReader } from '../objects/objects.ts'
import { PackWriter } from '../objects/packWriter.ts'
import { withHunks } from '../review/patch.ts'
import { refuseGoneRoots } from './refusals.ts'
import { selectTargets, type SelectOptions, type Skip, type Target } from '../review/selection.ts'
import type { Step } from './steps.ts'
import type { ApplyContext } from './transaction.ts'
import { Tree } from '../objects/tree.ts'
import type { FileView, View } from '../review/view.ts'

export type Landed = {
  readonly target: Target
  readonly wanted: Side | null
  /** The user has chosen his own instead. */
  readonly kept?: boolean
  /** The old name of a renamed file, for which he has chosen otherwise than for the new one. */
  readonly alone?: boolean
}
export type ApplyPlan = {
  readonly steps: readonly Step[]
  readonly landed: readonly Landed[]
  readonly conflicts: readonly Conflict[]
  /** Conflicts that a person has chosen for. */
  readonly answers: readonly Answer[]
  readonly skipped: readonly Skip[]
  /** How many of those are approved and cannot land as things stand. */
  readonly held: number
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
  const decisions = decisionsOf(context.records, record.id)
  const copies = await readCopies(context.layout.changeset(record.repoId, record.id))
  const selected = selectTargets(view, decisions, options)
  const { skipped } = selected
  const targets = withOldNames(selected.targets, (file) => isSureRename(file, copies))
  await refuseGoneRoots(
    targets.map(({ entry }) => entry.root),
    context.disk,
  )
  const going = new Set(
    targets
      .filter(
        ({ entry, wanted }) =>
          wanted.kind === 'side' &&
          wanted.side?.kind !== entry.base?.kind &&
          (entry.base !== null || wanted.side?.kind === 'directory'),
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
  const entries = new Map(view.manifest.entries.map((entry) => [entryKey(entry), entry]))
  const homes = homesOf(record.workspace)
  for (const { name } of homes) if (!trees.has(name)) trees.set(name, new Tree(name, context.disk))
  const settled: Settled[] = []
  const renamed = new Map<string, { readonly former: Former; readonly outcome: Outcome }>()
  const landed: Landed[] = []
  const conflicts: Conflict[] = []
  const answers: Answer[] = []
  const held: Skip[] = []
  const merged: string[] = []
  try {
    for (const target of targets) {
      const { entry, file } = target
      const locals = files.get(entry.root)
      if (locals === undefined) continue
      const wanted = await wantedSide(target, blobs, writer)
      const found = await locals.read(entry.path, entry.base)
      const folder = found.blocked === null ? null : entryKey({ root: entry.root, path: found.blocked })
      if (folder !== null && wanted !== null && !going.has(folder) && isMadeFolder(entries.get(folder))) {
        // Held back below with what depends on it.
        const step = { root: entry.root, path: entry.path, before: null, after: wanted, identity: null }
        settled.push({ target, wanted, outcome: { kind: 'step', merged: false, step } })
        continue
      }
      const isReplaced = found.side?.kind === 'directory' && wanted?.kind !== 'directory'
      const isFolderGone = wanted === null && entry.base?.kind === 'directory'
      const own = isReplaced && !isFolderGone ? await ownContent(trees.get(entry.root), entry, entries) : null
      const left = await hasLeft(target, trees)
      const former = found.side === null && found.blocked === null && (await formerOf(target, wanted, locals))
      const before = file === null ? renamed.get(entryKey(entry)) : undefined
      const outcome =
        before === undefined
          ? await settle(
              target,
              wanted,
              { ...found, hasLeft: left, own, former: former || null },
              going,
              tools,
            )
          : settleFormer(target, before.former, before.outcome)
      if (former) renamed.set(entryKey(former.entry), { former, outcome })
      if (outcome.kind === 'conflict') conflicts.push(outcome.conflict)
      else if (before === undefined && outcome.answer !== undefined) answers.push(outcome.answer)
      settled.push({ target, wanted, outcome })
    }
    await writer.flush()
    const prospect = new Prospect(settled, {
      entries,
      trees,
      files,
      homes,
      neighbours: neighboursOf(context.records, record),
      blobs,
    })
    await prospect.settleDown()
    for (const each of settled) {
      const { target, wanted, outcome } = each
      if (outcome.kind === 'conflict') continue
      const hold = prospect.holdOf(each)
      const isKept = hold?.kept === true || (outcome.kind === 'there' && outcome.kept === true)
      if (hold === null || hold.kept) landed.push({ target, wanted, ...(isKept ? { kept: true } : {}) })
      else if (target.file !== null) {
        const { root, path } = target.entry
        held.push({ root, ...namedPath(path), why: hold.why })
      }
      if (hold === null && outcome.kind === 'step' && outcome.merged) merged.push(toText(target.entry.path))
    }
    const steps = await prospect.steps()
    return {
      steps,
      landed: withAlone(landed, settled),
      conflicts,
      answers,
      skipped: [...skipped, ...held],
      held: held.length,
      merged,
    }
  } finally {
    for (const tree of trees.values()) await tree[Symbol.asyncDispose]()
  }
}

function withAlone(landed: readonly Landed[], settled: readonly Settled[]): readonly Landed[] {
  const chosen = new Set(
    settled.flatMap(({ target, outcome }) =>
      outcome.kind !== 'conflict' && outcome.answer !== undefined ? [target.entry] : [],
    ),
  )
  const newNames = new Map(
    landed.flatMap((each) =>
      each.target.from === undefined ? [] : [[entryKey(each.target.from), each] as const],
    ),
  )
  return landed.map((each) => {
    const renamed = newNames.get(entryKey(each.target.entry))
    const isOther = renamed !== undefined && renamed.kept !== each.kept
    return isOther && chosen.has(each.target.entry) ? { ...each, alone: true } : each
  })
}

/** A file or link of which the agent made a folder. */
function isMadeFolder(entry: Entry | undefined): boolean {
  return entry?.base != null && entry.base.kind !== 'directory' && entry.result?.kind === 'directory'
}

/** Tells which two belong together as one file that got another name, and which only look so. */
function withOldNames(targets: readonly Target[], isSure: (file: FileView) => boolean): readonly Target[] {
  const renamed = targets.flatMap(({ entry, file }) =>
    file?.entry === entry && file.from !== null ? [{ file, from: file.from }] : [],
  )
  const sure = new Map(renamed.filter(({ file }) => isSure(file)).map(({ file, from }) => [file.entry, from]))
  const apart = new Set(renamed.filter(({ file }) => !isSure(file)).map(({ from }) => from))
  return targets.map((target) => {
    const from = sure.get(target.entry)
    if (from !== undefined) return { ...target, from }
    return target.file === null && apart.has(target.entry) ? { ...target, apart: true } : target
  })
}

async function hasLeft({ from }: Target, trees: ReadonlyMap<string, Tree>): Promise<boolean> {
  return from?.base != null && (await trees.get(from.root)?.lstat(from.path)) === null
}

/** Null where the file was not renamed, or is under its old name as it was: then nothing has to be woven. */
async function formerOf({ from }: Target, wanted: Side | null, locals: LocalFiles): Promise<Former | null> {
  if (from?.base?.kind !== 'file' || from.result !== null || wanted?.kind !== 'file') return null
  const { side, identity } = await locals.read(from.path, from.base)
  if (side?.kind !== 'file' || (from.certain && sameSide(side, from.base))) return null
  return { entry: from, side, identity }
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

const wordsOf = ({ path, path_b64 }: Conflict) =>
  path_b64 === undefined ? `--path ${path}` : `--path-b64 ${path_b64}`

export function refuseConflicts(
  what: 'apply' | 'undo',
  id: DispatchId,
  conflicts: readonly Conflict[],
  /** Of an undo: the changeset that has to be undone before. */
  before?: DispatchId,
): void {
  const [first] = conflicts
  if (first === undefined) return
  const others = conflicts.length === 1 ? '' : ` (and ${conflicts.length - 1} more)`
  throw new OrangeryError('changeset.conflict', `cannot ${what}: ${first.path}: ${first.why}${others}`, {
    kind: 'busy',
    hint:
      what === 'apply'
        ? `Nothing was changed. Choose per file: \`orangery changeset resolve ${id} ${first.choices.join('|') || 'mine'} ${wordsOf(first)}\`.`
        : before === undefined
          ? 'Nothing was changed. Put the file back or keep the apply.'
          : `Nothing was changed. Undo that one first (\`orangery changeset undo ${before}\`), or keep the apply.`,
    details: { conflicts },
  })
}
