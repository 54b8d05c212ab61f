import type { DispatchId } from '../../../shared/ids.ts'
import type { ChangesetState } from '../../../shared/changeset.ts'
import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import type { ThroughHolder } from '../../base/throughHolder.ts'
import type { Workspace } from '../../base/workspace.ts'
import type { ApplyContext } from '../apply/transaction.ts'
import type { ChangesetLocks } from '../changesetLocks.ts'
import { findUserLinks, type UserLinks } from '../classify/aliases.ts'
import { homesOf } from '../classify/classifyEntries.ts'
import { ensureFolder, removeTree } from '../disk.ts'
import { hasNewWork, type Manifest } from '../manifest.ts'
import { carryToNewNames, renewPlaces } from '../review/carryDecisions.ts'
import { turnOf, type ChangesetReader } from '../review/reader.ts'
import { revisionsShown } from '../review/shown.ts'
import { readView } from '../review/view.ts'
import { revisionOf, SavedManifests } from '../saved.ts'
import { writeBases } from './bases.ts'
import { captureWorkspace, type Captured, type CaptureOptions } from './capture.ts'
import { noteCopies } from './copies.ts'
import { sidesOf } from './scan.ts'
import { noteFirstSeen } from './written.ts'

export type Capture = (
  workspace: Workspace,
  options: { final: boolean; through?: ThroughHolder | undefined; signal?: AbortSignal | undefined },
) => Promise<Captured | null>

type Parts = ApplyContext & {
  readonly reader: ChangesetReader
  readonly locked: ChangesetLocks
  readonly protectedPaths?: ((roots: readonly string[]) => Promise<readonly string[]>) | undefined
}

const openAgain: readonly ChangesetState[] = ['review', 'applied', 'rejected']

/** Keeps what a look at a workspace finds: its revision, its bases, and what becomes of the review. */
export function createCapture({ layout, records, disk, reader, locked, protectedPaths }: Parts): Capture {
  /** While an agent runs they are looked for once: the cost of a look must not grow with the tree. */
  const linksOfRunning = new Map<DispatchId, Promise<UserLinks>>()
  /** A look at what has not changed since the last one costs a walk, and nothing else. */
  const lastLook = new Map<DispatchId, { readonly sign: string; readonly captured: Captured | null }>()
  const lookForLinks: CaptureOptions['userLinks'] = (workspace, roots) =>
    findUserLinks(
      roots.map((root) => ({ path: root.path, base: sidesOf(root).base })),
      homesOf(workspace),
    )
  const linksOnce: CaptureOptions['userLinks'] = (workspace, roots) => {
    const known = linksOfRunning.get(workspace.id) ?? lookForLinks(workspace, roots)
    linksOfRunning.set(workspace.id, known)
    return known
  }

  const capture: Capture = async (workspace, { final, through, signal }) => {
    if (workspace.strategy === 'none') return null
    await using _lock = await locked.one(workspace.id)
    const { id, repoId } = workspace
    const folder = layout.changeset(repoId, id)
    const roots = workspace.roots.map(({ path }) => path)
    const began = records.turns(id).at(-1)?.at
    const captured = await captureWorkspace(workspace, {
      disk,
      layout,
      protectedPaths: (await protectedPaths?.(roots)) ?? [],
      through,
      signal,
      final,
      userLinks: final ? lookForLinks : linksOnce,
      lastSign: final ? undefined : lastLook.get(id)?.sign,
      turnMs: began === undefined ? null : Date.parse(began),
    })
    if (captured === null) return lastLook.get(id)?.captured ?? null
    lastLook.delete(id)
    if (final) linksOfRunning.delete(id)
    const { manifest, bases, sign } = captured
    const remember = <T extends Captured | null>(found: T): T => {
      if (!final && sign !== null) lastLook.set(id, { sign, captured: found })
      return found
    }
    const known = records.find(id)
    // Commits that could not be read are somebody's work, and a person has to hear of it.
    const isEmpty = manifest.entries.length === 0 && manifest.commits.length === 0 && captured.isWhole
    if (isEmpty && records.applies(id).length === 0) {
      // Everything was put back: there is nothing to review and nothing to lose.
      if (final) {
        if (known !== null) records.forget(id)
        await removeTree(disk, folder)
        return null
      }
      if (known === null) {
        // Keeps the clock of the first look, by which a step of it is noticed later.
        await writeBases(folder, bases, disk, false)
        return remember(null)
      }
    }
    const saved = new SavedManifests(folder, disk)
    // While the agent runs its own layer is the truth, and the next look repeats this one.
    const revision = revisionOf(manifest)
    // Made once, ahead of both: which of the two makes it would be chance, and the fault suite counts.
    await ensureFolder(disk, folder)
    const [view] = await Promise.all([
      readView(layout.objects(repoId), revision, manifest),
      saved.write(manifest, final),
      writeBases(folder, bases, disk, final),
    ])
    await noteFirstSeen(folder, view, (entry) => captured.writtenMs(entry), disk)
    if (final) await noteCopies(folder, view, workspace.roots, layout.objects(repoId), disk)
    if (known !== null) {
      await carryToNewNames(records, id, layout.objects(repoId), () => reader.view(known), view)
      renewPlaces(records, id, view)
    }
    const { insertions, deletions } = view
    const counts = { revision, files: view.files.length, insertions, deletions }
    const goesOn = known !== null && known.state !== 'active' && hasNewWork(await before(known), manifest)
    const at = new Date().toISOString()
    const turn = turnOf(records.transitions(id))
    records.capture(
      { id, repoId, workspace, updatedAt: at, ...counts },
      { revision, at, final, turn },
      'agent',
    )
    const lastOfTurns = new Map(records.captures(id).map((each) => [each.turn, each.revision]))
    const landed = records.applies(id).map((each) => each.revision)
    await saved.keepOnly(
      new Set([
        revision,
        ...lastOfTurns.values(),
        ...landed,
        ...records.reviewedRevisions(id),
        ...(await revisionsShown(folder)),
      ]),
    )
    // Whatever was said of it was said of less: while its agent writes nothing of it lands, and none of it hides.
    if (goesOn) records.transition(id, openAgain, 'active', 'agent', 'its agent went on writing')
    if (final) records.transition(id, ['active'], 'review', 'agent', 'the agent ended')
    return remember({ ...counts, commits: manifest.commits })
  }

  /** A record of it that is lost or damaged tells nothing: then everything is new. */
  const before = (record: ChangesetRecord): Promise<Manifest | null> =>
    reader.view(record).then(
      ({ manifest }) => manifest,
      () => null,
    )

  return capture
}
