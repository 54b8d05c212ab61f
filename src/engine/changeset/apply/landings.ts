import type { ApplyResult } from '../../../shared/changeset.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import type { ChangesetLocks } from '../changesetLocks.ts'
import type { CommitRequest } from '../commits/commitRequest.ts'
import {
  followFiles,
  planCommit,
  refuseBadName,
  submoduleNotes,
  withCommits,
  type Followed,
} from '../commits/landCommit.ts'
import { commitAlone, missedCommit } from '../commits/missedCommit.ts'
import type { CommitPlan } from '../commits/ownCommits.ts'
import { renewPlaces } from '../review/carryDecisions.ts'
import { approveSelected } from '../review/decide.ts'
import type { ChangesetReader } from '../review/reader.ts'
import { seenBy } from '../review/shown.ts'
import { applyChangeset } from './apply.ts'
import { clearWay } from './clearWay.ts'
import { recoverFirst } from './recover.ts'
import { movedOn, wrongState } from './refusals.ts'
import { hasOpenJournal, type ApplyContext } from './transaction.ts'
import { undoChangeset } from './undo.ts'

export type Landings = {
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
}

type Parts = ApplyContext & { readonly reader: ChangesetReader; readonly locked: ChangesetLocks }

/** What a person may land and take back, each behind what a crash left before. */
export function createLandings({ reader, locked, ...context }: Parts): Landings {
  const { layout, records } = context
  const folderOf = ({ repoId, id }: ChangesetRecord) => layout.changeset(repoId, id)
  return {
    async apply(id, { all, include_ignored, revision, commit }, by) {
      await using _lock = await locked.landing(reader.find(id))
      using recovered = await recoverFirst(context, reader.find(id))
      await clearWay(context, reader.find(id), locked)
      const record = reader.find(id)
      if (record.state !== 'review' && record.state !== 'applied') throw wrongState(record, 'applied')
      if (revision !== undefined && revision !== record.revision) throw movedOn(record)
      const view = await reader.view(record)
      const selection = { all, includeIgnored: include_ignored }
      renewPlaces(records, id, view)
      const viewAt = (at: string) => reader.view(record, at)
      const seen = revision === undefined ? await seenBy(folderOf(record), record, by, {}, viewAt) : null
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
      await using _lock = await locked.landing(reader.find(id))
      using recovered = await recoverFirst(context, reader.find(id))
      await clearWay(context, reader.find(id), locked)
      const record = reader.find(id)
      // Its agent works on what landed: taken away under it, half of its turn would wait for review.
      if (record.state === 'active') throw wrongState(record, 'review')
      const result = await undoChangeset(context, record, await reader.view(record), by, last)
      return withCommits(result, { commits: [], notes: result.notes ?? [] }, recovered.take())
    },
  }
}
