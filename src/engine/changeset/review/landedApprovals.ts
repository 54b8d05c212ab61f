import type { DecisionRecord } from '../../base/changesetRecords.ts'
import { placesIn, unknownVersion } from './anchors.ts'
import type { Decisions } from './decisions.ts'
import { entryKey } from '../manifest.ts'
import type { PatchHunk } from './patch.ts'
import type { FileView, View } from './view.ts'

/**
 * What has landed was approved, be it in steps: of what one turn changed and the next one changed again each step was
 * decided on by itself, and seen from before the first of them it is a change that nobody has spoken of.
 * `whole`: as if it had not landed; `rest`: what has not.
 */
export function approvalsOfLanded(whole: View, rest: View, decisions: Decisions): DecisionRecord[] {
  const waiting = new Set(rest.manifest.entries.map(entryKey))
  const restOf = new Map(rest.files.map((file) => [entryKey(file.entry), file]))
  return whole.files.flatMap((file) => {
    const approval = decisions.lastApproval(file)
    if (approval === null) return []
    const { verdict, by, at } = approval
    return placesLanded(file).map((place) => ({ ...place, verdict, by, at }))
  })

  function placesLanded(file: FileView) {
    const { entry, from } = file
    const isWaiting = [entry, from].some((each) => each !== null && waiting.has(entryKey(each)))
    if (!isWaiting) return decisions.ofWhole(file) === 'approve' ? [] : placesIn(file, file.hunks, true)
    const left = restOf.get(entryKey(entry))
    if (left === undefined || left.binary) return []
    const landed = file.hunks.filter(
      (hunk) =>
        decisions.ofHunk(file, hunk) !== 'approve' && !left.hunks.some((other) => touches(hunk, other)),
    )
    // Kind, mode and name wait with the rest.
    return placesIn(file, landed, false, unknownVersion)
  }
}

/** Whether two hunks have to do with the same lines of the agent's file, or with what stands between them. */
function touches(one: PatchHunk, other: PatchHunk): boolean {
  return one.newStart <= endOf(other) && other.newStart <= endOf(one)
}
const endOf = ({ newStart, oldCount, insertions, deletions }: PatchHunk) =>
  newStart + oldCount + insertions - deletions
