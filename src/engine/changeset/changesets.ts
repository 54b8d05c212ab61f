import type { Changeset, ChangesetState, Conflicts, Glimpse, Verdict } from '../../shared/changeset.ts'
import type { ChangesetSummary } from '../../shared/dispatch.ts'
import type { DispatchId } from '../../shared/ids.ts'
import type { ChangesetRecords } from '../base/changesetRecords.ts'
import { createRepoLock } from '../base/lock.ts'
import { finishAllMoves } from '../base/moveBranch.ts'
import type { Layout } from '../base/paths.ts'
import type { Workspace } from '../base/workspace.ts'
import { changesetLocks } from './changesetLocks.ts'
import { createCapture, type Capture } from './capture/recordCapture.ts'
import { createLandings, type Landings } from './apply/landings.ts'
import { conflictTexts, findConflict, type EditableTexts } from './apply/conflictTexts.ts'
import { decideFiles } from './review/decide.ts'
import type { DiffText } from './review/diffText.ts'
import { realDisk, type Disk } from './disk.ts'
import { expireAbandoned } from './expireAbandoned.ts'
import { givenText, toBytes, toText, type GivenPlace } from './bytePath.ts'
import { placedCommits, type PlacedCommit } from './commits/commits.ts'
import { landedPaths, type LandedHash } from './apply/landedPaths.ts'
import { planApply } from './apply/planApply.ts'
import { peekWorkspace } from './review/peek.ts'
import { ChangesetReader, type DiffOptions, type Exported, type ExportOptions } from './review/reader.ts'
import { allConflicts, conflictsOf, resolveConflict, type Resolution } from './apply/resolve.ts'
import {
  endsInCommit,
  listUnfinished,
  recoverAll,
  recoverOne,
  type ClaimFolders,
} from './apply/recoverAll.ts'
import type { ApplyContext } from './apply/transaction.ts'
import { movedOn, wrongState } from './apply/refusals.ts'
import { noteReviewed, noteShown, seenBy, type SeenVersion } from './review/shown.ts'
import { settlePath } from './apply/settlePath.ts'

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

export interface Changesets extends Landings {
  /** Records what the agent left so far; null when it changed nothing. `final` opens the review. */
  readonly capture: Capture
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

  return {
    ...createLandings({ ...context, reader, locked }),
    capture: createCapture({ ...context, reader, locked, protectedPaths: options.protectedPaths }),
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
