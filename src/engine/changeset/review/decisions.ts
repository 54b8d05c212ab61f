import type { Decision } from '../../../shared/changeset.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import type { ChangesetRecords, DecisionRecord } from '../../base/changesetRecords.ts'
import {
  fileAnchorOf,
  isOnFile,
  isOnOtherVersion,
  isPlacelessAbout,
  placesOf,
  placesOfHunk,
} from './anchors.ts'
import { entryKey, type Entry } from '../manifest.ts'
import { contentOfHunk, type PatchHunk } from './patch.ts'
import type { FileView, View } from './view.ts'

/**
 * `landed`: views of what was applied; an approved hunk of those is gone because it landed, not because it changed.
 * `instead`: records that take the place of those of their name.
 */
export function decisionsOf(
  records: ChangesetRecords,
  id: DispatchId,
  { landed = [], instead = [] }: { landed?: readonly View[]; instead?: readonly DecisionRecord[] } = {},
): Decisions {
  const nameOf = (record: DecisionRecord) => placeKey(record, record.hunk ?? '')
  const replaced = new Set(instead.map(nameOf))
  const kept = records.decisions(id).filter((record) => !replaced.has(nameOf(record)))
  const lastApply = records.applies(id).at(-1)?.at ?? ''
  return new Decisions([...instead, ...kept], { landed, lastApply })
}

/** A decision counts for the content it was made on, where it was made on it; whatever changed since is open again. */
export class Decisions {
  readonly #byPath: ReadonlyMap<string, readonly DecisionRecord[]>
  readonly #byPlace: ReadonlyMap<string, readonly DecisionRecord[]>
  readonly #landed: ReadonlySet<string>
  readonly #lastApply: string

  constructor(
    records: readonly DecisionRecord[],
    { landed, lastApply }: { readonly landed: readonly View[]; readonly lastApply: string },
  ) {
    this.#landed = new Set(
      landed.flatMap(({ files }) =>
        files.flatMap((file) =>
          entriesOf(file).flatMap((entry) =>
            file.hunks.flatMap((hunk) =>
              [contentOfHunk(hunk.id), ...placesOfHunk(file, hunk)].map((place) => placeKey(entry, place)),
            ),
          ),
        ),
      ),
    )
    this.#byPath = Map.groupBy(records, (record) => entryKey(record))
    const placed = records.flatMap((record) =>
      placesOf(record).map((place) => ({ key: placeKey(record, place), record })),
    )
    this.#byPlace = new Map(
      [...Map.groupBy(placed, ({ key }) => key)].map(([key, found]) => [
        key,
        found.map(({ record }) => record),
      ]),
    )
    this.#lastApply = lastApply
  }

  #ofPath({ entry, from }: FileView): readonly DecisionRecord[] {
    return (
      this.#byPath.get(entryKey(entry)) ?? (from === null ? [] : (this.#byPath.get(entryKey(from)) ?? []))
    )
  }

  /**
   * All that was ever decided on this hunk, the newest first: one of before an undo may stand there again.
   * What was decided on a text holds after its file was renamed; the new name is another matter.
   */
  recordsOf(file: FileView, hunk: PatchHunk): readonly DecisionRecord[] {
    for (const entry of entriesOf(file)) {
      const found = new Set(
        placesOfHunk(file, hunk).flatMap((place) => this.#byPlace.get(placeKey(entry, place)) ?? []),
      )
      const placeless = this.#byPlace.get(placeKey(entry, contentOfHunk(hunk.id))) ?? []
      for (const record of placeless.filter((each) => isPlacelessAbout(each, file, hunk))) {
        // What landed since may have been an equal one.
        const isSure = record.at > this.#lastApply && placeless.length === 1
        if (isOnFile(record, file) || isSure) found.add(record)
      }
      if (found.size > 0) return [...found].toSorted((a, b) => (a.at < b.at ? 1 : -1))
    }
    return []
  }
  recordOf(file: FileView, hunk: PatchHunk): DecisionRecord | null {
    return this.recordsOf(file, hunk)[0] ?? null
  }
  ofHunk(file: FileView, hunk: PatchHunk): Decision {
    return this.recordOf(file, hunk)?.verdict ?? null
  }
  wholeOf(place: { root: string; path: string }): DecisionRecord | null {
    return this.#byPath.get(entryKey(place))?.find(({ hunk }) => hunk === null) ?? null
  }
  /** The newest approval of something of it, in whatever version. */
  lastApproval(file: FileView): DecisionRecord | null {
    const approvals = this.#ofPath(file).filter(({ verdict }) => verdict === 'approve')
    return approvals.toSorted((a, b) => (a.at < b.at ? 1 : -1))[0] ?? null
  }
  /** What is not in a hunk (modes, names, bytes of binaries) is decided with the file as a whole. */
  ofWhole(file: FileView): Decision {
    const record = this.wholeOf(file.entry)
    return record !== null && isOnFile(record, file) ? record.verdict : null
  }
  /**
   * Kind, mode and name are in no hunk: approved hunks speak for them only if each was approved on exactly this
   * file. An agent could otherwise make a file world-writable after its text was approved.
   */
  isShapeApproved(file: FileView, hunks: readonly PatchHunk[] = file.hunks): boolean {
    if (!changesShape(file) || this.ofWhole(file) === 'approve') return true
    return (
      hunks.length > 0 &&
      hunks.every((hunk) => {
        const record = this.recordOf(file, hunk)
        return record?.verdict === 'approve' && isOnFile(record, file)
      })
    )
  }
  /** The agent has deleted what it had changed before, or made a folder there, and somebody had said no to that change. */
  isRejectedThenDeleted({ entry: { base, result, ...place } }: FileView): boolean {
    const records = this.#byPath.get(entryKey(place)) ?? []
    const isFolder = result?.kind === 'directory' && base?.kind !== 'directory'
    return (result === null || isFolder) && records.some(({ verdict }) => verdict === 'reject')
  }
  /** Something of it was decided and is not there any more, or the agent has written it since and something is open. */
  isReopened(file: FileView): boolean {
    if (this.#ofHunks(file) === 'approve' && !this.isShapeApproved(file)) return true
    // Just this version was decided on as a whole: what was said of others is past.
    if (this.ofWhole(file) !== null) return false
    const known = new Set(file.hunks.map((hunk) => this.recordOf(file, hunk)))
    // All of it is decided, and some of that on this version: who did so knew what had become of the rest.
    const isOnThis = (record: DecisionRecord | null) => record !== null && !isOnOtherVersion(record, file)
    if (this.ofFile(file) !== null && [...known].some(isOnThis)) return false
    return this.#ofPath(file).some((record) => {
      if (known.has(null) && isOnOtherVersion(record, file)) return true
      if (record.hunk === null) return file.hunks.length === 0 && !isOnFile(record, file)
      return !known.has(record) && !this.#hasLanded(record)
    })
  }
  #hasLanded(record: DecisionRecord): boolean {
    return (
      record.verdict === 'approve' &&
      placesOf(record).some((place) => this.#landed.has(placeKey(record, place)))
    )
  }
  /** What the file was whenever something of it was decided. */
  anchorsOf(file: FileView): ReadonlySet<string> {
    return new Set(this.#ofPath(file).map(fileAnchorOf))
  }
  /** A file's decision is that of all its hunks, if they agree, and if they also speak for its shape. */
  ofFile(file: FileView): Decision {
    if (file.hunks.length === 0) return this.ofWhole(file)
    const decision = this.#ofHunks(file)
    return decision === 'approve' && !this.isShapeApproved(file) ? null : decision
  }
  #ofHunks(file: FileView): Decision {
    const [first, ...others] = file.hunks.map((hunk) => this.ofHunk(file, hunk))
    return first !== undefined && others.every((other) => other === first) ? first : null
  }
}

/** Whether the change does something that its hunks do not show. */
function changesShape({ entry: { base, result }, from }: FileView): boolean {
  if (from !== null || base === null || result === null || base.kind !== result.kind) return true
  return 'mode' in base && 'mode' in result && base.mode !== result.mode
}
function entriesOf({ entry, from }: FileView): readonly Entry[] {
  return from === null ? [entry] : [entry, from]
}
function placeKey(entry: { root: string; path: string }, place: string): string {
  return `${entryKey(entry)}\0${place}`
}
