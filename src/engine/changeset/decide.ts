import type { Verdict } from '../../shared/changeset.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { ChangesetRecord, ChangesetRecords } from '../base/changesetRecords.ts'
import { givenText, toText, type GivenPlace } from './bytePath.ts'
import type { PatchHunk } from './patch.ts'
import { selectTargets, type SelectOptions } from './selection.ts'
import { anchorOfHunk, anchorOfWhole, storedName } from './anchors.ts'
import { renewPlaces } from './carryDecisions.ts'
import { decisionsOf } from './decisions.ts'
import { fileMovedOn, unseen } from './refusals.ts'
import type { Seen } from './shown.ts'
import { findFiles, type FileView, type View } from './view.ts'

export type DecisionInput = GivenPlace & {
  readonly hunk?: string | undefined
  readonly verdict: Verdict | null
  readonly comment?: string | undefined
}

/** Decides on a file, a hunk of it, or everything in a folder that one may decide on together. */
export function decideFiles(
  records: ChangesetRecords,
  record: ChangesetRecord,
  view: View,
  input: DecisionInput,
  by: string,
  seen: Seen,
): void {
  const { hunk, verdict, comment } = input
  const at = new Date().toISOString()
  // What was decided before has the names the hunks have now: a new decision takes its place.
  renewPlaces(records, record.id, view)
  const files = filesFor(view, input)
  if (verdict === 'approve' && hunk === undefined) refuseUnseen(record, files, seen)
  for (const file of files) {
    const hunks = hunk === undefined ? file.hunks : file.hunks.filter((each) => each.id === hunk)
    if (hunk !== undefined && hunks.length === 0) {
      throw new OrangeryError('changeset.no_such_hunk', `no hunk ${hunk} in ${givenText(input)}`, {
        kind: 'not_found',
        hint: 'It may have changed since: look at the changeset again.',
      })
    }
    const places = placesIn(file, hunks, hunk === undefined, seen(file) ?? unknownVersion)
    records.decide(
      record.id,
      places.map((place) => ({ ...place, verdict, by, at })),
    )
    const place = places.at(-1)
    if (place !== undefined && comment !== undefined && comment !== '') {
      records.comment(record.id, { ...place, hunk: hunk ?? null, text: comment, by, at })
    }
  }
  records.markReviewed(record.id, by, view.revision, at)
}

/** In the place of an anchor, which it never equals. */
const unknownVersion = '-'

/** A hunk is approved by its content; of a whole file the agent may have made something else since it was read. */
function refuseUnseen(record: ChangesetRecord, files: readonly FileView[], seen: Seen): void {
  for (const file of files) {
    const version = seen(file)
    if (version === file.anchor) continue
    const path = toText(file.entry.path)
    throw version === null ? unseen(record, path) : fileMovedOn(record, path)
  }
}

/** Hunks as records name them, and after them the whole. */
function placesIn(file: FileView, hunks: readonly PatchHunk[], withWhole: boolean, seen?: string) {
  const { root, path } = file.entry
  return [
    ...hunks.map((hunk) => ({
      root,
      path,
      hunk: storedName(file, hunk),
      // Seen in another version, it does not speak for the mode and name that the file has now.
      anchor: anchorOfHunk(file, hunk, withWhole ? file.anchor : seen),
    })),
    ...(withWhole ? [{ root, path, hunk: null, anchor: anchorOfWhole(file) }] : []),
  ]
}

function filesFor(view: View, input: DecisionInput): readonly FileView[] {
  const { verdict } = input
  const path = givenText(input)
  const { exact, inside } = findFiles(view, input)
  if (exact.length > 1) {
    throw new OrangeryError('changeset.ambiguous_path', `${path} changed in several roots`, {
      kind: 'not_found',
      hint: `Name the root: ${exact.map((file) => file.entry.root).join(', ')}.`,
    })
  }
  if (exact.length === 1) return exact
  // Approving a folder is a small "approve all": what needs a decision of its own is not in it.
  const free = verdict === 'approve' ? inside.filter((file) => !file.protected) : inside
  // Nor what git ignores, unless the folder holds nothing else: then it is what was meant.
  const seen = verdict === 'approve' ? free.filter((file) => !file.ignored) : free
  const files = seen.length > 0 ? seen : free
  if (files.length > 0) return files
  if (inside.length > 0) {
    throw new OrangeryError('changeset.protected', `${path}: everything in it is protected`, {
      kind: 'refused',
      hint: 'Decide on each protected file by its own path.',
    })
  }
  throw new OrangeryError('changeset.no_such_path', `no change at ${path} in this changeset`, {
    kind: 'not_found',
  })
}

/** Writes down what "approve all" approves, in the name of whoever said it. */
export function approveSelected(
  records: ChangesetRecords,
  record: ChangesetRecord,
  view: View,
  selection: SelectOptions,
  /** What does not land is not spoken for either. */
  landing: ReadonlySet<FileView>,
  by: string,
): void {
  const at = new Date().toISOString()
  const { approved } = selectTargets(view, decisionsOf(records, record.id), selection)
  records.decide(
    record.id,
    approved.flatMap(({ file, hunks, isWhole, byAll }) => {
      // Written anew, a decision on older content would count for what the agent made of it since.
      if (!byAll || !landing.has(file)) return []
      return placesIn(file, hunks, isWhole).map((place) => ({
        ...place,
        verdict: 'approve' as const,
        by,
        at,
      }))
    }),
  )
}
