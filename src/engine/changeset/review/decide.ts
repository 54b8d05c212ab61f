import type { Verdict } from '../../../shared/changeset.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import type { ChangesetRecord, ChangesetRecords, DecisionRecord } from '../../base/changesetRecords.ts'
import { givenText, toText, type GivenPlace } from '../bytePath.ts'
import type { PatchHunk } from './patch.ts'
import { selectTargets, type SelectOptions } from './selection.ts'
import { placesIn, unknownVersion } from './anchors.ts'
import { renewPlaces } from './carryDecisions.ts'
import { decisionsOf } from './decisions.ts'
import { fileMovedOn, unseen } from '../apply/refusals.ts'
import type { Seen } from './shown.ts'
import { findFiles, noSuchPath, type FileView, type View } from './view.ts'

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
  // The beginning of a name names no content: an agent can find another hunk that has it.
  const isNamed = (file: FileView) => file.hunks.some(({ id }) => id === hunk)
  if (verdict === 'approve')
    refuseUnseen(
      record,
      files.filter((file) => !isNamed(file)),
      seen,
    )
  for (const file of files) {
    const hunks = hunk === undefined ? file.hunks : [findHunk(file, hunk, givenText(input))]
    const places = placesIn(file, hunks, hunk === undefined, seen(file) ?? unknownVersion)
    records.decide(
      record.id,
      places.map((place) => ({ ...place, verdict, by, at })),
    )
    const place = places.at(-1)
    if (place !== undefined && comment !== undefined && comment !== '') {
      records.comment(record.id, {
        ...place,
        hunk: hunk === undefined ? null : (hunks[0]?.id ?? null),
        text: comment,
        by,
        at,
      })
    }
  }
  records.markReviewed(record.id, by, view.revision, at)
}

/** A hunk by its name, or by as much of its beginning as no other hunk of the file has. */
function findHunk({ hunks }: FileView, name: string, path: string): PatchHunk {
  const exact = hunks.find(({ id }) => id === name)
  const alike = name === '' ? [] : hunks.filter(({ id }) => id.startsWith(name))
  const [found, other] = exact === undefined ? alike : [exact]
  if (found !== undefined && other === undefined) return found
  const which = found === undefined ? `no hunk ${name}` : `${alike.length} hunks begin with ${name}`
  throw new OrangeryError('changeset.no_such_hunk', `${path}: ${which}`, {
    kind: 'not_found',
    hint:
      found === undefined
        ? 'It may have changed since: look at the changeset again.'
        : `Give more of its name: ${alike.map(({ id }) => id).join(', ')}.`,
  })
}

/** A hunk is approved by its content; of a whole file the agent may have made something else since it was read. */
function refuseUnseen(record: ChangesetRecord, files: readonly FileView[], seen: Seen): void {
  for (const file of files) {
    const version = seen(file)
    if (version === file.anchor) continue
    const path = toText(file.entry.path)
    throw version === null ? unseen(record, path) : fileMovedOn(record, path)
  }
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
  throw noSuchPath(view, input)
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
  /** Whoever has read it speaks for what he has read; null where he has named the revision. */
  seen: Seen | null,
): () => void {
  const at = new Date().toISOString()
  const before = records.decisions(record.id)
  const { approved } = selectTargets(view, decisionsOf(records, record.id), selection)
  const own = selectTargets(view, decisionsOf(records, record.id), { ...selection, all: false }).approved
  const decided = new Set(own.flatMap(({ file, isWhole }) => (isWhole ? [file] : [])))
  const spokenFor = approved.flatMap(({ file, byAll }) =>
    byAll && landing.has(file) && !decided.has(file) ? [file] : [],
  )
  if (seen !== null) refuseUnseen(record, spokenFor, seen)
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
  return () => {
    // What somebody decided meanwhile stays.
    const made = records.decisions(record.id).filter((each) => each.at === at && each.by === by)
    const was = (place: DecisionRecord) => before.find((each) => isSamePlace(each, place))
    records.decide(
      record.id,
      made.map((each) => was(each) ?? { ...each, verdict: null }),
    )
  }
}

const isSamePlace = (one: DecisionRecord, other: DecisionRecord): boolean =>
  one.root === other.root && one.path === other.path && one.hunk === other.hunk
