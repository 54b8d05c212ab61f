import { createHash } from 'node:crypto'
import { OrangeryError } from '../../shared/errors.ts'
import type { DispatchId } from '../../shared/ids.ts'
import type { ChangesetRecord } from '../base/changesetRecords.ts'
import { namedPath, toText } from './bytePath.ts'
import { LocalFiles, settle, type Conflict, type MergeTools } from './conflicts.ts'
import { entryKey, type Side } from './manifest.ts'
import { BlobReader } from './objects.ts'
import { PackWriter } from './packWriter.ts'
import { withHunks } from './patch.ts'
import { selectTargets, type SelectOptions, type Skip, type Target } from './selection.ts'
import type { Step } from './steps.ts'
import type { ApplyContext } from './transaction.ts'
import { Tree } from './tree.ts'
import { Decisions, type View } from './view.ts'

export type Landed = {
  readonly target: Target
  readonly wanted: Side | null
  /** The user has chosen his own instead. */
  readonly kept?: boolean
}
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
      const found = await locals.read(target.entry.path, target.entry.base)
      const local = { ...found, hasLeft: await hasLeft(target, trees) }
      const outcome = await settle(target, wanted, local, going, tools)
      if (outcome.kind === 'conflict') conflicts.push(outcome.conflict)
      else {
        const isKept = outcome.kind === 'there' && outcome.kept === true
        landed.push({ target, wanted, ...(isKept ? { kept: true } : {}) })
      }
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

async function hasLeft({ entry, file }: Target, trees: ReadonlyMap<string, Tree>): Promise<boolean> {
  const from = file?.entry === entry ? file.from : null
  return from?.base != null && (await trees.get(from.root)?.lstat(from.path)) === null
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
    found.push({ root: step.root, ...namedPath(step.path), why, anchor: '', choices: ['mine'] })
  }
  return found
}

const wordsOf = ({ path, path_b64 }: Conflict) =>
  path_b64 === undefined ? `--path ${path}` : `--path-b64 ${path_b64}`

export function refuseConflicts(
  what: 'apply' | 'undo',
  id: DispatchId,
  conflicts: readonly Conflict[],
): void {
  const [first] = conflicts
  if (first === undefined) return
  const others = conflicts.length === 1 ? '' : ` (and ${conflicts.length - 1} more)`
  throw new OrangeryError('changeset.conflict', `cannot ${what}: ${first.path}: ${first.why}${others}`, {
    kind: 'busy',
    hint:
      what === 'apply'
        ? `Nothing was changed. Choose per file: \`orangery changeset resolve ${id} ${first.choices.join('|') || 'mine'} ${wordsOf(first)}\`.`
        : 'Nothing was changed. Put the file back or keep the apply.',
    details: { conflicts },
  })
}
