import type { ChangesetState, Transition, Verdict } from '../../shared/changeset.ts'
import type { DispatchId, RepoId } from '../../shared/ids.ts'
import type { Workspace } from './workspace.ts'

export type ChangesetRecord = {
  readonly id: DispatchId
  readonly repoId: RepoId
  readonly state: ChangesetState
  /** Names the newest capture. */
  readonly revision: string
  readonly files: number
  readonly insertions: number
  readonly deletions: number
  readonly workspace: Workspace
  readonly updatedAt: string
  /** Why a human is asked to look, or null. */
  readonly escalated: string | null
}

/** What a decision or comment is about. `path` is the path's bytes as latin1; `hunk` null is the whole file. */
export type DecisionPlace = {
  readonly root: string
  readonly path: string
  readonly hunk: string | null
}
/** `anchor` names what was decided on, and where that stands; a decision counts only while it is there. */
export type DecisionRecord = DecisionPlace & {
  readonly anchor: string
  readonly verdict: Verdict
  readonly by: string
  readonly at: string
}
export type CommentRecord = DecisionPlace & {
  readonly anchor: string
  readonly text: string
  readonly by: string
  readonly at: string
}
/** The answer to a conflict; it holds only while both sides are what they were when it was given. */
export type ResolutionRecord = {
  readonly root: string
  readonly path: string
  readonly anchor: string
  readonly choice: 'mine' | 'theirs' | 'both' | 'edit'
  /** Blob with the text of `edit`. */
  readonly content: string | null
  readonly by: string
  readonly at: string
}
export type CaptureRecord = {
  readonly revision: string
  readonly at: string
  readonly final: boolean
  /** Counts from 1; a rework is the next turn. */
  readonly turn: number
}
export type ApplyRecord = {
  /** The journal's name. */
  readonly transaction: string
  readonly kind: 'apply' | 'undo'
  /** The changeset as it was reviewed, with what earlier applies have landed of it. */
  readonly revision: string
  readonly at: string
  readonly by: string
  readonly state: 'committed' | 'undone'
  /** The transactions that an undo took back. */
  readonly undoes?: readonly string[] | null
}

/** A dispatch that went on working on a changeset after a review. */
export type TurnRecord = { readonly dispatch: DispatchId; readonly at: string; readonly by: string }

/** Where changesets keep what must outlive every process. One transaction per call. */
export interface ChangesetRecords {
  find(id: DispatchId): ChangesetRecord | null
  list(): readonly ChangesetRecord[]
  /** Inserts or updates all but the state; a new record starts `active` with its first transition. */
  capture(record: Omit<ChangesetRecord, 'state' | 'escalated'>, capture: CaptureRecord, by: string): void
  /** Takes out a changeset in which nothing is left. */
  forget(id: DispatchId): void
  captures(id: DispatchId): readonly CaptureRecord[]
  /** False when the state was not one of `from` any more: somebody else was faster. */
  transition(
    id: DispatchId,
    from: readonly ChangesetState[],
    to: ChangesetState,
    by: string,
    why: string,
  ): boolean
  transitions(id: DispatchId): readonly Transition[]
  /** Back to `active` for a dispatch that goes on with it; false as for `transition`. */
  startTurn(
    id: DispatchId,
    from: readonly ChangesetState[],
    dispatch: DispatchId,
    by: string,
    why: string,
  ): boolean
  /** Second and later turns, in order. */
  turns(id: DispatchId): readonly TurnRecord[]
  /** The changeset a dispatch works on: its own, or the one it went on with. */
  changesetOf(dispatch: DispatchId): DispatchId
  /**
   * Flags it, or takes the flag back; both stay on record beside the transitions, from a state to itself. `orangery`
   * does so beside what a person flagged.
   */
  escalate(id: DispatchId, why: string | null, by: string): void
  decisions(id: DispatchId): readonly DecisionRecord[]
  /** Verdict null takes the decision back. */
  decide(
    id: DispatchId,
    decisions: readonly (Omit<DecisionRecord, 'verdict'> & { readonly verdict: Verdict | null })[],
  ): void
  /** Says anew where what was decided and said belongs: together, and as it was otherwise. */
  move(
    id: DispatchId,
    moves: {
      /** To null: another one has taken its place. */
      readonly decisions: readonly { readonly from: DecisionRecord; readonly to: DecisionRecord | null }[]
      readonly comments: readonly { readonly from: CommentRecord; readonly to: CommentRecord }[]
    },
  ): void
  comments(id: DispatchId): readonly CommentRecord[]
  comment(id: DispatchId, comment: CommentRecord): void
  resolutions(id: DispatchId): readonly ResolutionRecord[]
  resolve(id: DispatchId, resolution: ResolutionRecord): void
  /** Takes the answer to a conflict back. */
  unresolve(id: DispatchId, place: Pick<ResolutionRecord, 'root' | 'path'>): void
  /** What a reviewer has seen last: the revision that "since my last review" compares with. */
  reviewed(id: DispatchId, by: string): string | null
  /** Revisions that some reviewer has seen last. */
  reviewedRevisions(id: DispatchId): readonly string[]
  markReviewed(id: DispatchId, by: string, revision: string, at: string): void
  applies(id: DispatchId): readonly ApplyRecord[]
  /** Sets how much it is said to be. */
  recount(id: DispatchId, counts: Pick<ChangesetRecord, 'files' | 'insertions' | 'deletions'>): void
  /** Records a finished apply or undo together with the state it leads to and what remains. */
  applied(
    id: DispatchId,
    apply: ApplyRecord,
    remains: Pick<ChangesetRecord, 'revision' | 'files' | 'insertions' | 'deletions'>,
    state: ChangesetState,
    why: string,
  ): void
}
