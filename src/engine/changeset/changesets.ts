import type {
  ApplyResult,
  Changeset,
  ChangesetState,
  Conflicts,
  Glimpse,
  Verdict,
} from '../../shared/changeset.ts'
import type { ChangesetSummary } from '../../shared/dispatch.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { DispatchId } from '../../shared/ids.ts'
import type { ChangesetRecord, ChangesetRecords } from '../base/changesetRecords.ts'
import { createRepoLock } from '../base/lock.ts'
import { finishAllMoves } from '../base/moveBranch.ts'
import type { Layout } from '../base/paths.ts'
import type { ThroughHolder } from '../base/throughHolder.ts'
import type { Workspace } from '../base/workspace.ts'
import { findUserLinks, type UserLinks } from './classify/aliases.ts'
import { applyChangeset } from './apply/apply.ts'
import { writeBases } from './capture/bases.ts'
import { changesetLocks } from './changesetLocks.ts'
import { clearWay } from './apply/clearWay.ts'
import { captureWorkspace, type Captured, type CaptureOptions } from './capture/capture.ts'
import { homesOf } from './classify/classifyEntries.ts'
import { conflictTexts, findConflict, type EditableTexts } from './apply/conflictTexts.ts'
import { carryToNewNames, renewPlaces } from './review/carryDecisions.ts'
import { decideFiles, approveSelected } from './review/decide.ts'
import { noteCopies } from './capture/copies.ts'
import type { DiffText } from './review/diffText.ts'
import { ensureFolder, realDisk, removeTree, type Disk } from './disk.ts'
import { expireAbandoned } from './expireAbandoned.ts'
import { givenText, toBytes, toText, type GivenPlace } from './bytePath.ts'
import type { CommitRequest } from './commits/commitRequest.ts'
import { placedCommits, type PlacedCommit } from './commits/commits.ts'
import {
  followFiles,
  planCommit,
  refuseBadName,
  submoduleNotes,
  withCommits,
  type Followed,
} from './commits/landCommit.ts'
import { commitAlone, missedCommit } from './commits/missedCommit.ts'
import type { CommitPlan } from './commits/ownCommits.ts'
import { landedPaths, type LandedHash } from './apply/landedPaths.ts'
import { hasNewWork, type Manifest } from './manifest.ts'
import { planApply } from './apply/planApply.ts'
import { peekWorkspace } from './review/peek.ts'
import {
  ChangesetReader,
  turnOf,
  type DiffOptions,
  type Exported,
  type ExportOptions,
} from './review/reader.ts'
import { allConflicts, conflictsOf, resolveConflict, type Resolution } from './apply/resolve.ts'
import { revisionOf, SavedManifests } from './saved.ts'
import { sidesOf } from './capture/scan.ts'
import { recoverFirst } from './apply/recover.ts'
import {
  endsInCommit,
  listUnfinished,
  recoverAll,
  recoverOne,
  type ClaimFolders,
} from './apply/recoverAll.ts'
import { hasOpenJournal, type ApplyContext } from './apply/transaction.ts'
import { movedOn, wrongState } from './apply/refusals.ts'
import { noteReviewed, noteShown, revisionsShown, seenBy, type SeenVersion } from './review/shown.ts'
import { settlePath } from './apply/settlePath.ts'
import { undoChangeset } from './apply/undo.ts'
import { readView } from './review/view.ts'
import { noteFirstSeen } from './capture/written.ts'

export type ChangesetsOptions = {
  readonly layout: Layout
  readonly records: ChangesetRecords
  /** Names and folders the user protects on these roots, besides the built-in ones. */
  readonly protectedPaths?: (roots: readonly string[]) => Promise<readonly string[]>
  /** For the fault suite. */
  readonly disk?: Disk
}
type Ended = { id: DispatchId; state: ChangesetState }
type Settled = Ended & { notes?: string[] }
const openAgain: readonly ChangesetState[] = ['review', 'applied', 'rejected']

export interface Changesets {
  /** Records what the agent left so far; null when it changed nothing. `final` opens the review. */
  capture(
    workspace: Workspace,
    options: { final: boolean; through?: ThroughHolder | undefined; signal?: AbortSignal | undefined },
  ): Promise<Captured | null>
  /** What may have changed, with kinds and sizes, without reading a file: for a list that follows the agent. */
  peek(workspace: Workspace): Promise<Glimpse[]>
  list(): Promise<ChangesetSummary[]>
  get(id: DispatchId): Promise<Changeset>
  /** The commits that are in review, each with the repository it belongs to. */
  commits(id: DispatchId): Promise<PlacedCommit[]>
  /** `by` tells whose last review the scope `review` means. */
  diff(id: DispatchId, options: DiffOptions, by?: string): Promise<DiffText & { revision: string }>
  decide(
    id: DispatchId,
    decision: GivenPlace & {
      hunk?: string | undefined
      verdict: Verdict | null
      comment?: string | undefined
    } & SeenVersion,
    by: string,
  ): Promise<Changeset>
  /** What an apply would do and run into now; of everything that may land, unless told otherwise. */
  conflicts(id: DispatchId, selection?: { all: boolean; include_ignored: boolean }): Promise<Conflicts>
  /** What one would edit to settle a conflict by hand. */
  conflictTexts(id: DispatchId, place: GivenPlace): Promise<EditableTexts>
  /** Settles a conflict, or changes how it was settled; null takes the choice back. */
  resolve(id: DispatchId, resolution: Resolution, by: string): Promise<Conflicts>
  apply(
    id: DispatchId,
    options: {
      all: boolean
      include_ignored: boolean
      revision?: string | undefined
      commit?: CommitRequest | undefined
    },
    by: string,
  ): Promise<ApplyResult>
  /** Takes back all that has landed of it, or only what the last apply landed. */
  undo(id: DispatchId, by: string, options?: { last: boolean }): Promise<ApplyResult>
  /** The paths of all that has landed of it so far, byte for byte, and what is there now. */
  landedPaths(id: DispatchId): Promise<(LandedHash & { path: Buffer })[]>
  /** The same paths as text, each with what was there before and what landing left. */
  landedHashes(id: DispatchId): Promise<Map<string, LandedHash>>
  /** The paths that an undo has put back, each with what it found and what it left. */
  undoneHashes(id: DispatchId): Promise<Map<string, LandedHash>>
  reject(id: DispatchId, comment: string, by: string): Promise<Ended>
  /** Archived: it can be restored for 30 days. */
  abandon(id: DispatchId, by: string): Promise<Ended>
  /** A rejected or abandoned changeset comes back to review. */
  restore(id: DispatchId, by: string): Promise<Ended>
  /** The agent goes on working on it, as this dispatch: its next turn. */
  reopen(id: DispatchId, dispatch: DispatchId, by: string): Promise<Ended>
  /** The turn is over without a capture. */
  endTurn(id: DispatchId, why: string): void
  /** The comments of a review as the agent's next prompt; null when nothing was said. */
  reworkPrompt(id: DispatchId, last?: string): Promise<string | null>
  /** Flags it to a human, or takes the flag back. */
  escalate(id: DispatchId, why: string | null, by: string): Promise<Changeset>
  /** Nothing of it is held in memory beyond a piece, be it as large as it may. */
  export(id: DispatchId, options: ExportOptions, by?: string): Promise<Exported>
  /** Says what becomes of a path that a crash left neither old nor new, and brings the apply to its end. */
  settle(id: DispatchId, place: GivenPlace, choice: 'mine' | 'theirs'): Promise<Settled>
  /** Lets go of what was abandoned more than 30 days ago. */
  expire(now?: number): Promise<readonly DispatchId[]>
  /** Brings applies that a crash cut off to their end, each while `claim` keeps its folders. */
  recover(claim?: ClaimFolders): Promise<void>
  /** One of them, for who has its folders to himself; throws where it stands still until a person has seen to it. */
  recoverOne(id: DispatchId): Promise<void>
  /** Whose apply or undo is under way or was cut off. */
  unfinished(): Promise<readonly DispatchId[]>
  /** Whether that is to make a commit. */
  endsInCommit(id: DispatchId): Promise<boolean>
}

export function createChangesets(options: ChangesetsOptions): Changesets {
  const { layout, records } = options
  const disk = options.disk ?? realDisk
  const context: ApplyContext = { layout, records, disk }
  const locks = createRepoLock(layout)
  const reader = new ChangesetReader(context)
  const find = (id: DispatchId) => reader.find(id)
  const folderOf = (id: DispatchId) => layout.changeset(find(id).repoId, id)
  const locked = changesetLocks(locks)

  async function move(
    id: DispatchId,
    from: readonly ChangesetState[],
    to: ChangesetState,
    by: string,
    why: string,
  ): Promise<Ended> {
    find(id)
    await using _lock = await locked.one(id)
    if (!records.transition(id, from, to, by, why)) throw wrongState(find(id), to)
    return { id, state: to }
  }

  // Also what still waits for a decision: a reviewer wants to know before, not after.
  async function conflicts(
    id: DispatchId,
    { all, include_ignored: includeIgnored } = { all: true, include_ignored: true },
  ): Promise<Conflicts> {
    const record = find(id)
    const view = await reader.view(record)
    return conflictsOf(record, view, await planApply(context, record, view, { all, includeIgnored }))
  }

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

  async function capture(
    workspace: Workspace,
    { final, through, signal }: Parameters<Changesets['capture']>[1],
  ): Promise<Captured | null> {
    if (workspace.strategy === 'none') return null
    await using _lock = await locked.one(workspace.id)
    const { id, repoId } = workspace
    const folder = layout.changeset(repoId, id)
    const protectedPaths = (await options.protectedPaths?.(workspace.roots.map(({ path }) => path))) ?? []
    const began = records.turns(id).at(-1)?.at
    const captured = await captureWorkspace(workspace, {
      disk,
      layout,
      protectedPaths,
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

  return {
    capture,
    conflicts,
    peek: peekWorkspace,
    landedPaths: async (id) =>
      [...(await landedPaths(context, find(id)))].map(([path, hash]) => ({ path: toBytes(path), ...hash })),
    landedHashes: async (id) =>
      new Map([...(await landedPaths(context, find(id)))].map(([path, hash]) => [toText(path), hash])),
    undoneHashes: async (id) =>
      new Map(
        [...(await landedPaths(context, find(id), 'undo'))].map(([path, hash]) => [toText(path), hash]),
      ),
    get: (id) => reader.get(id),
    commits: async (id) => placedCommits((await reader.view(find(id))).manifest, find(id).workspace),
    reworkPrompt: (id, last = '') => reader.reworkPrompt(id, last),

    async list() {
      return records
        .list()
        .map(({ id, state, files, insertions, deletions, escalated, workspace, updatedAt }) => ({
          id,
          state,
          files,
          insertions,
          deletions,
          escalated,
          roots: workspace.roots.filter(({ role }) => role === 'project').map(({ path }) => path),
          updated_at: updatedAt,
        }))
    },

    async diff(id, wanted, by = '') {
      const { diff, shown } = await reader.diff(id, wanted, by)
      if (wanted.read === true) await noteShown(folderOf(id), by, shown, disk)
      return diff
    },

    async export(id, wanted, by) {
      const exported = await reader.export(id, wanted)
      if (by !== undefined) await noteShown(folderOf(id), by, exported.shown, disk)
      return exported
    },

    async decide(id, { anchor, revision, ...decision }, by) {
      const record = find(id)
      if (record.state === 'abandoned') throw wrongState(record, 'review')
      const seen = await seenBy(folderOf(id), record, by, { anchor, revision }, (at) =>
        // What a later look took the place of is not kept.
        reader.view(record, at).catch(() => {
          throw movedOn(record)
        }),
      )
      decideFiles(records, record, await reader.view(record), decision, by, seen)
      await noteReviewed(folderOf(id), by, { revision }, disk)
      return reader.get(id)
    },

    async conflictTexts(id, place) {
      const record = find(id)
      const view = await reader.view(record)
      const plan = await planApply(context, record, view, { all: true, includeIgnored: true })
      const { open } = findConflict(view, allConflicts(plan), place)
      return conflictTexts(layout.objects(record.repoId), givenText(place), open)
    },

    async resolve(id, resolution, by) {
      const record = find(id)
      const view = await reader.view(record)
      const plan = await planApply(context, record, view, { all: true, includeIgnored: true })
      await resolveConflict(context, record, view, plan, resolution, by)
      return conflicts(id)
    },

    async apply(id, { all, include_ignored, revision, commit }, by) {
      await using _lock = await locked.landing(find(id))
      using recovered = await recoverFirst(context, find(id))
      await clearWay(context, find(id), locked)
      const record = find(id)
      if (record.state !== 'review' && record.state !== 'applied') throw wrongState(record, 'applied')
      if (revision !== undefined && revision !== record.revision) throw movedOn(record)
      const view = await reader.view(record)
      const selection = { all, includeIgnored: include_ignored }
      renewPlaces(records, id, view)
      const viewAt = (at: string) => reader.view(record, at)
      const seen = revision === undefined ? await seenBy(folderOf(id), record, by, {}, viewAt) : null
      if (commit !== undefined) await refuseBadName(commit.branch)
      const missed = commit === undefined ? null : await missedCommit(context, record)
      let plan: CommitPlan | undefined
      let takeBack: (() => void) | undefined
      let followed: Followed = { commits: [], notes: [] }
      let isAlone = false
      const result = await applyChangeset(context, record, view, selection, by, {
        check: async (landed) => {
          isAlone = landed.length === 0
          if (commit !== undefined) plan = await planCommit(context, record, view.manifest, landed, commit)
          // Not before it is sure to begin: what is refused leaves the decisions as they were.
          const landing = new Set(landed.flatMap(({ target }) => target.file ?? []))
          if (all) takeBack = approveSelected(records, record, view, selection, landing, by, seen)
          return plan === undefined || commit === undefined ? {} : { commit, planned: [...plan.planned] }
        },
        follow: async () => {
          followed = await followFiles(context, record, view.manifest, plan, isAlone)
          return followed.commits
        },
        instead: async () => missed !== null,
      }).catch(async (error: unknown) => {
        // Approved only because it was about to land. Where a journal is open, it may still do so.
        const landed = error instanceof OrangeryError && error.code === 'changeset.record_behind'
        if (!landed && !(await hasOpenJournal(context, record).catch(() => true))) takeBack?.()
        throw error
      })
      const before = [...recovered.take(), ...submoduleNotes(record, view.manifest)]
      if (plan !== undefined) return withCommits(result, followed, before)
      const alone = await commitAlone(context, record, missed, commit)
      return withCommits(result, alone, [...before, ...followed.notes])
    },

    async undo(id, by, { last } = { last: false }) {
      await using _lock = await locked.landing(find(id))
      using recovered = await recoverFirst(context, find(id))
      await clearWay(context, find(id), locked)
      const record = find(id)
      // Its agent works on what landed: taken away under it, half of its turn would wait for review.
      if (record.state === 'active') throw wrongState(record, 'review')
      const result = await undoChangeset(context, record, await reader.view(record), by, last)
      return withCommits(result, { commits: [], notes: result.notes ?? [] }, recovered.take())
    },

    reject: (id, comment, by) => move(id, ['review'], 'rejected', by, comment),
    abandon: (id, by) => move(id, ['review', 'active', 'rejected'], 'abandoned', by, 'abandoned'),
    restore: (id, by) => move(id, ['rejected', 'abandoned'], 'review', by, 'brought back'),
    async reopen(id, dispatch, by) {
      find(id)
      await using _lock = await locked.one(id)
      if (!records.startTurn(id, ['rejected'], dispatch, by, 'rework')) throw wrongState(find(id), 'active')
      return { id, state: 'active' }
    },
    endTurn: (id, why) => void records.transition(id, ['active'], 'review', 'agent', why),

    async escalate(id, why, by) {
      find(id)
      records.escalate(id, why, by)
      return reader.get(id)
    },

    async settle(id, place, choice) {
      await using _lock = await locked.landing(find(id))
      const notes = await settlePath(context, find(id), place, choice)
      records.escalate(id, null, 'orangery')
      return { id, state: find(id).state, ...(notes.length === 0 ? {} : { notes: [...notes] }) }
    },

    expire: (now = Date.now()) => expireAbandoned(context, locks, now),

    async recover(claim = async () => new AsyncDisposableStack()) {
      await finishAllMoves(layout)
      await recoverAll(context, locked, claim)
    },
    recoverOne: (id) => recoverOne(context, locked, find(id)),
    unfinished: async () => (await listUnfinished(context)).map(({ id }) => id),
    endsInCommit: (id) => endsInCommit(context, find(id)),
  }
}
